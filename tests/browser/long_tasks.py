"""How long the page's main thread was busy at a stretch, by Chromium's own trace.

In processor time, not by the clock: on a machine that does other things as well a task is
interrupted, which is nobody's fault. A page's own long-task observer goes by the clock.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, Page

MAIN_THREAD = "CrRendererMain"
TASK = "ThreadControllerImpl::RunTask"


class Trace:
    """What `traced` recorded; complete after the block."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    @property
    def tasks(self) -> list[float]:
        """Milliseconds of each task of the busiest page's main thread, the longest first."""
        mains = {
            (event["pid"], event["tid"])
            for event in self.events
            if event["name"] == "thread_name" and event["args"]["name"] == MAIN_THREAD
        }
        by_thread: dict[tuple[int, int], list[float]] = {main: [] for main in mains}
        for event in self.events:
            thread = (event["pid"], event["tid"])
            if event["ph"] == "X" and event["name"] == TASK and thread in mains:
                by_thread[thread].append(event.get("tdur", 0) / 1000)
        return sorted(max(by_thread.values(), key=sum), reverse=True)


@contextmanager
def traced(browser: Browser, page: Page) -> Iterator[Trace]:
    """Record what the browser does in the block."""
    trace = Trace()
    browser.start_tracing(page=page, categories=["toplevel"])
    try:
        yield trace
    finally:
        trace.events = json.loads(browser.stop_tracing())["traceEvents"]
