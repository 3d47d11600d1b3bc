"""A message sent from the command line, and its answer on the terminal (T6)."""

import secrets
import time
from dataclasses import dataclass
from typing import TextIO

from app import events as ev
from app.cli_errors import INTERRUPTED
from app.remote import Receipt, Remote
from app.terminal import Live, Whole

EXIT_CODES = {"finished": 0, "cancelled": INTERRUPTED}


@dataclass(frozen=True)
class Errand:
    """What to send. `thread`, `model` None: a new thread, the thread's model."""

    text: str
    thread: str | None
    model: str | None
    live: bool


def new_id(now: float) -> str:
    """A UUIDv7, which sorts by time. `now`: seconds since 1970."""
    number = (int(now * 1000) << 80) | secrets.randbits(80)
    number = number & ~(0xF << 76) | 0x7 << 76
    number = number & ~(0x3 << 62) | 0x2 << 62
    text = f"{number:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def carry_out(remote: Remote, errand: Errand, out: TextIO, err: TextIO) -> int:
    """Send it and print the answer; returns the exit code. Raises RemoteError, UnavailableError."""

    def write(text: str) -> None:
        out.write(text)
        out.flush()

    def note(text: str) -> None:
        err.write(text)
        err.flush()

    if errand.thread is not None:
        remote.check_thread(errand.thread)
    thread = errand.thread or new_id(time.time())
    receipt = remote.send(thread, new_id(time.time()), errand.text, errand.model)
    view = Live(write, note) if errand.live else Whole(write)
    outcome = _follow(remote, receipt, view)
    view.end()
    if outcome.outcome != "finished":
        note(f"{outcome.text}\n")
    note(f"[thread {receipt.thread}]\n")
    return EXIT_CODES.get(outcome.outcome, 1)


def _follow(remote: Remote, receipt: Receipt, view: Live | Whole) -> ev.Outcome:
    """To the outcome. Ctrl+C stops the turn, whose outcome then says so."""
    events = remote.follow(receipt.cursor)
    while True:
        try:
            for event in events:
                view.tell(event)
                if isinstance(event, ev.Outcome):
                    return event
        except KeyboardInterrupt:
            # Also where the server is away: a turn that nobody stopped would go on at its start.
            # A second Ctrl+C ends us, and leaves the turn alone.
            remote.stop(receipt.stream)
