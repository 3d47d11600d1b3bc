"""Pictures that follow each other, as one animated PNG (W3C PNG, third edition, section 11.3.2)."""

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

SIGNATURE = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class Frame:
    """One picture, a PNG, and how long it is shown."""

    png: bytes
    milliseconds: int


def animate(frames: Sequence[Frame]) -> bytes:
    """One file, shown over and over; what follows an equal frame prolongs it.

    Args:
        frames: at least one; all of the same size and kind of pixels.
    """
    frames = list(_merged(frames))
    header = next(data for kind, data in _chunks(frames[0].png) if kind == b"IHDR")
    width, height = struct.unpack(">II", header[:8])
    parts = [
        SIGNATURE,
        _chunk(b"IHDR", header),
        _chunk(b"acTL", struct.pack(">II", len(frames), 0)),
    ]
    number = 0
    for index, frame in enumerate(frames):
        place = struct.pack(">IIIII", number, width, height, 0, 0)
        # Not disposed of, not blended: each picture covers the one before.
        parts.append(_chunk(b"fcTL", place + struct.pack(">HHBB", frame.milliseconds, 1000, 0, 0)))
        number += 1
        pixels = b"".join(data for kind, data in _chunks(frame.png) if kind == b"IDAT")
        if index == 0:
            parts.append(_chunk(b"IDAT", _packed(pixels)))
        else:
            parts.append(_chunk(b"fdAT", struct.pack(">I", number) + _packed(pixels)))
            number += 1
    return b"".join([*parts, _chunk(b"IEND", b"")])


def _merged(frames: Sequence[Frame]) -> Iterator[Frame]:
    last: Frame | None = None
    for frame in frames:
        if last is not None and last.png == frame.png:
            last = Frame(last.png, min(last.milliseconds + frame.milliseconds, 0xFFFF))
        else:
            if last is not None:
                yield last
            last = frame
    if last is not None:
        yield last


def _packed(pixels: bytes) -> bytes:
    """As small as they get; a browser's screenshots are made in haste."""
    return zlib.compress(zlib.decompress(pixels), 9)


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    position = len(SIGNATURE)
    while position < len(png):
        (length,) = struct.unpack_from(">I", png, position)
        yield png[position + 4 : position + 8], png[position + 8 : position + 8 + length]
        position += length + 12


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
