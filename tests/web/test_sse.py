"""The text of the wire: cursors, comments, frames (web/PROTOCOL.md, "Frames")."""

import string

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app import events as ev
from app.errors import InvalidError
from web import sse

IDS = st.text(string.ascii_letters + string.digits + "_-", min_size=22, max_size=64)
SEQS = st.integers(0, 10**15 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
STREAM = "0123456789abcdefghijAB"


def frame(id_: str | None, event: bytes) -> bytes:
    head = f"id: {id_}\n".encode() if id_ is not None else b""
    return head + b"data: " + event + b"\n\n"


# Cursors


@pytest.mark.requirement("L1")
@settings(deadline=None)
@given(IDS, SEQS)
def test_a_cursor_reads_as_it_was_written(stream: str, seq: int) -> None:
    assert sse.parse_cursor(f"{stream}:{seq}") == (stream, seq)


@settings(deadline=None)
@given(st.text(max_size=80))
@example("")
@example("0")
@example(STREAM)
@example(f"{STREAM}:")
@example(f"{STREAM}:-1")
@example(f"{STREAM}:+1")
@example(f"{STREAM}:1 ")
@example(f"{STREAM}:1\n")
@example(f" {STREAM}:1")
@example(f"{STREAM}:1:2")
@example(f"{STREAM}:1_0")
@example(f"{STREAM}:٣")  # a digit, but not one of ours
@example(f"{STREAM}:{'9' * 5000}")
@example(f"{STREAM[1:]}:1")
@example(f"{STREAM * 3}:1")
@example(f"{STREAM}é:1")
def test_what_is_not_a_cursor_is_refused(text: str) -> None:
    with pytest.raises(InvalidError) as raised:
        sse.parse_cursor(text)
    assert raised.value.code == "CURSOR_INVALID"


# Frames


def event_of(text: str) -> bytes:
    return ev.encode(ev.TextDelta(id=text, delta=text))


@settings(deadline=None)
@given(st.lists(st.tuples(st.none() | st.builds("{}:{}".format, IDS, SEQS), TEXTS)))
@example([(f"{STREAM}:1", 'data: {"a":1}')])
@example([(f"{STREAM}:1", "\n\ndata: x\n\nid: y\n")])
@example([(None, "id: 1\ndata: ")])
@example([(f"{STREAM}:1", "\r\n\r\n"), (f"{STREAM}:2", "\u2028\x85\x00")])
def test_frames_split_into_what_they_were_made_of(given: list[tuple[str | None, str]]) -> None:
    """Whatever the texts contain, also what looks like a frame."""
    expected = [(id_, event_of(text)) for id_, text in given]
    joined = b"".join(frame(id_, event) for id_, event in expected)
    assert sse.split_frames(joined) == expected
    assert [ev.decode(event) for _, event in sse.split_frames(joined)] == [
        ev.TextDelta(id=text, delta=text) for _, text in given
    ]


@pytest.mark.requirement("L6")
def test_a_gap_is_an_event_without_id() -> None:
    [(id_, event)] = sse.split_frames(sse.gap("thread-1"))
    assert id_ is None
    assert event == b'{"type":"error","code":"STREAM_RESUME_GAP","thread":"thread-1"}'


# Comments


@pytest.mark.requirement("L1")
@settings(deadline=None)
@given(SEQS)
def test_comments_carry_no_id_and_no_event(seq: int) -> None:
    """WHATWG HTML, 9.2.6: a line that begins with a colon is ignored."""
    for text in (sse.beat(seq), sse.DRAINING, sse.OPEN):
        assert text.endswith(b"\n\n")
        fields = [line for line in text.splitlines() if line and not line.startswith(b":")]
        assert fields in ([], [b"retry: 1000"])


def test_a_heartbeat_says_how_far_it_is() -> None:
    assert sse.beat(7) == b": 7\n\n"


def test_a_stream_opens_as_the_protocol_says() -> None:
    assert sse.OPEN == b": open\nretry: 1000\n\n"
