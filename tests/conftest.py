"""Which requirements a test run proved: the record that `scripts/requirements` prints.

A test function proves the rows of docs/requirements.md that its `requirement` marker names, if all
of its parameters passed. With `--requirements-report=FILE` (as `scripts/test` does for a full run)
the run writes `{id: [test, ...]}` there.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from requirement_table import requirements

if TYPE_CHECKING:
    from playwright.sync_api import Playwright

# How long an example takes says more about the machine than about the code.
settings.register_profile("unbroken", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unbroken")

# The name under which an item's ids travel from collection to its reports.
PROPERTY = "requirement"


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    """One for the session: two of them in one thread are refused."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as found:
        yield found


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--requirements-report",
        type=Path,
        metavar="FILE",
        help="write which requirements this run proved",
    )


def pytest_configure(config: pytest.Config) -> None:
    # A shell starts background jobs with Ctrl+C ignored, and a program that is started by one of
    # them would inherit that: here some are stopped by it.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    path = config.getoption("requirements_report")
    # Where tests run in parallel, workers report to the process that started them.
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(RequirementsReport(path))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse ids that no row has: a typing error would otherwise hide a proof."""
    known = requirements()
    for item in items:
        for marker in item.iter_markers("requirement"):
            for requirement in marker.args:
                if requirement not in known:
                    raise pytest.UsageError(f"{item.nodeid}: no requirement {requirement!r}")
                item.user_properties.append((PROPERTY, requirement))


class RequirementsReport:
    """Collects the outcome of every marked test and writes the proved ids at the end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tests: dict[str, set[str]] = {}
        # Tests of which a phase of some parameter did not pass; they prove nothing.
        self.unproved: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = report.nodeid.partition("[")[0]
        for name, value in report.user_properties:
            if name == PROPERTY:
                self.tests.setdefault(test, set()).add(str(value))
        if report.outcome != "passed":
            self.unproved.add(test)

    def pytest_sessionfinish(self) -> None:
        proved: dict[str, list[str]] = {}
        for test in sorted(self.tests.keys() - self.unproved):
            for requirement in sorted(self.tests[test]):
                proved.setdefault(requirement, []).append(test)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(proved, indent=1), encoding="utf-8")
