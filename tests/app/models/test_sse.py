"""The event stream decoder: any cut of the bytes gives the same events (STYLE.md, 43)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.models import ModelError
from app.models.sse import Comment, Decoder, Event, Item, Unknown


def decode(data: bytes, *cuts: int) -> list[Item]:
    decoder, items, start = Decoder(), [], 0
    for cut in [*sorted(cuts), len(data)]:
        items += decoder.feed(data[start:cut])
        start = cut
    return items


def data(*texts: str) -> list[Item]:
    return [Event("message", text.encode()) for text in texts]


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_each_line_end_ends_a_line(end: str) -> None:
    stream = end.join(["data: one", "", "data: two", "data: three", "", ""])
    assert decode(stream.encode()) == data("one", "two\nthree")


def test_crlf_cut_between_cr_and_lf_is_one_line_end() -> None:
    stream = b"data: one\r\n\r\ndata: two\r\n\r\n"
    for cut in range(len(stream)):
        assert decode(stream, cut) == data("one", "two")


def test_an_event_after_cr_is_dispatched_without_waiting_for_the_next_byte() -> None:
    assert Decoder().feed(b"data: x\r\r") == data("x")


def test_unicode_line_separators_are_text() -> None:
    text = "a\u2028b\u2029c\x85d\x0be\x0cf"
    assert decode(f"data: {text}\n\n".encode()) == data(text)


def test_utf8_cut_anywhere_is_whole_again() -> None:
    stream = "data: naïve 日本 👩‍🚀\n\n".encode()
    for cut in range(len(stream)):
        assert decode(stream, cut) == data("naïve 日本 👩‍🚀")


def test_comments_are_surfaced() -> None:
    assert decode(b": ping\n:\n: OPENROUTER PROCESSING\n\n") == [
        Comment(b"ping"),
        Comment(b""),
        Comment(b"OPENROUTER PROCESSING"),
    ]


def test_an_empty_data_frame_is_an_event_and_a_bare_empty_line_is_none() -> None:
    assert decode(b"\n\ndata:\n\n\n\ndata\n\n") == data("", "")


def test_event_names_hold_for_one_event() -> None:
    stream = b"event: error\ndata: 1\n\nevent: lost\n\ndata: 2\n\n"
    assert decode(stream) == [Event("error", b"1"), Event("message", b"2")]


def test_an_event_has_the_newest_id() -> None:
    stream = b"data: a\n\nid: 7\ndata: b\n\ndata: c\n\ndata: d\nid: 8\n\nid: 9\0\ndata: e\n\n"
    found = [(item.data, item.id) for item in decode(stream) if isinstance(item, Event)]
    assert found == [(b"a", ""), (b"b", "7"), (b"c", "7"), (b"d", "8"), (b"e", "8")]
    assert [
        item.id for item in decode(b"id: 7\n\nid:\ndata: a\n\n") if isinstance(item, Event)
    ] == [""]


def test_retry_is_passed_over_and_unknown_lines_surfaced() -> None:
    stream = b'retry: 10\nerror: {"code":500}\n<html>\ndata: x\n\n'
    assert decode(stream) == [
        Unknown(b"error", b'{"code":500}'),
        Unknown(b"<html>", b""),
        *data("x"),
    ]


def test_only_one_space_after_the_colon_is_dropped() -> None:
    assert decode(b"data:x\n\ndata:  x \n\n") == data("x", " x ")


def test_a_byte_order_mark_is_dropped_only_at_the_start() -> None:
    stream = "\ufeffdata: x\n\ndata: \ufeffy\n\n".encode()
    for cut in range(len(stream)):
        assert decode(stream, cut) == data("x", "\ufeffy")


def test_an_unfinished_event_is_pending_and_never_dispatched() -> None:
    decoder = Decoder()
    assert decoder.feed(b"data: x\n") == []
    assert decoder.pending
    assert decoder.feed(b"\n") == data("x")
    assert not decoder.pending


def test_an_event_above_the_limit_is_refused_whether_in_one_line_or_many() -> None:
    for stream in (b"data: " + b"x" * 200, b"data: xxxx\n" * 40, b": " + b"x" * 200):
        with pytest.raises(ModelError) as caught:
            feed_bytewise(Decoder(limit=100), stream)
        assert (caught.value.code, caught.value.retryable) == ("MODEL_PROTOCOL", False)


def feed_bytewise(decoder: Decoder, stream: bytes) -> None:
    for n in range(len(stream)):
        decoder.feed(stream[n : n + 1])


def test_many_events_below_the_limit_pass() -> None:
    assert len(decode(b"data: xxxx\n\n" * 1000)) == 1000


def test_a_ten_megabyte_event_in_network_pieces_passes() -> None:
    stream = b"data: " + b"x" * 10_000_000 + b"\n\n"
    items = decode(stream, *range(0, len(stream), 65536))
    assert [len(item.data) for item in items if isinstance(item, Event)] == [10_000_000]


LINES = st.sampled_from(
    ["data: a", "data: |", "data:", "data", ": ping", "event: x", "id: 1", "odd: b", "", "",
     "data: \u2028é", "data: 👩‍🚀", ":", "data: :"]
)  # fmt: skip


@given(
    st.lists(st.tuples(LINES, st.sampled_from(["\n", "\r", "\r\n"])), max_size=20),
    st.lists(st.integers(0, 400), max_size=30),
)
def test_any_cut_gives_the_same_items(lines: list[tuple[str, str]], cuts: list[int]) -> None:
    stream = "".join(line + end for line, end in lines).encode()
    whole = decode(stream)
    assert decode(stream, *(min(cut, len(stream)) for cut in cuts)) == whole
    assert decode(stream, *range(len(stream))) == whole


@given(st.lists(st.text(st.characters(exclude_characters="\r\n"), max_size=30), max_size=10))
def test_what_was_framed_comes_out(texts: list[str]) -> None:
    stream = "".join(f"data: {text}\n\n" for text in texts).encode("utf-8", "surrogatepass")
    items = decode(stream)
    assert [item.data.decode("utf-8", "surrogatepass") for item in items] == texts  # type: ignore[union-attr]
