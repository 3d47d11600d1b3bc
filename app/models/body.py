"""The body of a provider's response, in pieces that are small however it comes."""

import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import httpx2
import trio

# What is read from a body at once: at most 30 ms of work for a reader.
PIECE_BYTES = 16 * 1024
GIVE_UP_SECONDS = 1.0


@asynccontextmanager
async def pieces_of(response: httpx2.Response) -> AsyncIterator[AsyncIterator[bytes]]:
    """The body as it comes; what is left of it is given up at the end.

    Closing httpx2's iterator where it stands forgets the generators inside it (2.16), which Trio
    then finds in the garbage. A cancelled read unwinds them all, and closes the connection.
    """
    raw = response.aiter_raw()
    try:
        yield _Pieces(raw, response.headers.get("content-encoding", ""))
    finally:
        with trio.move_on_after(GIVE_UP_SECONDS, shield=True) as rest:
            rest.cancel(reason="the rest of the body is not wanted")
            try:
                async for _ in raw:
                    pass
            except httpx2.HTTPError:
                pass  # of a body that is not wanted


class _Pieces:
    """A body in pieces of PIECE_BYTES at most, between which others run.

    We ask for no compression; a server that compresses all the same is understood, but cannot make
    us unpack gigabytes at once.
    """

    def __init__(self, raw: AsyncIterator[bytes], coding: str) -> None:
        self._raw = raw
        self._coding = coding.strip().lower()
        self._inflate = _inflater()
        self._rest: Iterator[bytes] = iter(())

    def __aiter__(self) -> "_Pieces":
        return self

    async def __anext__(self) -> bytes:
        """Raises httpx2.HTTPError."""
        piece = next(self._rest, None)
        if piece is not None:
            await trio.lowlevel.checkpoint()
            return piece
        while piece is None:
            self._rest = self._unpacked(await anext(self._raw))
            piece = next(self._rest, None)
        return piece

    def _unpacked(self, data: bytes) -> Iterator[bytes]:
        if self._coding in ("", "identity"):
            for start in range(0, len(data), PIECE_BYTES):
                yield data[start : start + PIECE_BYTES]
            return
        if self._coding not in ("gzip", "x-gzip", "deflate"):
            raise httpx2.DecodingError(f"compressed by {self._coding}, which nobody asked for")
        try:
            while data:
                yield self._inflate.decompress(data, PIECE_BYTES)
                data = self._inflate.unconsumed_tail
                if self._inflate.eof and self._inflate.unused_data:
                    # gzip's are written one after the other, as one (RFC 1952, 2.2).
                    data, self._inflate = self._inflate.unused_data, _inflater()
        except zlib.error as error:
            raise httpx2.DecodingError(str(error)) from error


def _inflater() -> "zlib._Decompress":
    return zlib.decompressobj(wbits=47)  # gzip or zlib, by its head
