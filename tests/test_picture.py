"""The moving picture: what scripts/animation.py writes is one that a browser plays."""

from __future__ import annotations

import base64
import struct
import zlib

import pytest
from playwright.sync_api import Playwright

import chromium
from animation import SIGNATURE, Frame, animate

DECODE = """async text => {
  const data = Uint8Array.from(atob(text), char => char.charCodeAt(0));
  const decoder = new ImageDecoder({data, type: "image/png"});
  await decoder.tracks.ready;
  const {frameCount, repetitionCount} = decoder.tracks.selectedTrack;
  const found = [];
  for (let frameIndex = 0; frameIndex < frameCount; frameIndex++) {
    const {image} = await decoder.decode({frameIndex});
    const canvas = new OffscreenCanvas(image.codedWidth, image.codedHeight);
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0);
    const [red] = context.getImageData(1, 1, 1, 1).data;
    found.push({red, ms: image.duration / 1000});
  }
  return {found, repetitionCount};
}"""


def png(red: int) -> bytes:
    """A picture of one colour, 4 by 3, its pixels in two chunks as browsers may write them."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    pixels = zlib.compress((b"\0" + bytes((red, 0, 0)) * 4) * 3)
    header = struct.pack(">IIBBBBB", 4, 3, 8, 2, 0, 0, 0)
    parts = (b"IHDR", header), (b"IDAT", pixels[:5]), (b"IDAT", pixels[5:]), (b"IEND", b"")
    return SIGNATURE + b"".join(chunk(*part) for part in parts)


@pytest.mark.browser
def test_a_browser_plays_the_pictures_in_order_each_for_its_time(playwright: Playwright) -> None:
    frames = [Frame(png(red), ms) for red, ms in ((10, 100), (20, 150), (20, 150), (30, 500))]
    animation = base64.b64encode(animate(frames)).decode()
    browser = playwright.chromium.launch(
        executable_path=chromium.path(), args=["--no-sandbox", "--disable-gpu"]
    )
    page = browser.new_page()
    # A secure context, which the decoder wants.
    page.route(
        "**/*", lambda route: route.fulfill(body="<!doctype html>", content_type="text/html")
    )
    page.goto("http://localhost/")
    played = page.evaluate(DECODE, animation)
    browser.close()
    assert played["found"] == [
        {"red": 10, "ms": 100},
        {"red": 20, "ms": 300},
        {"red": 30, "ms": 500},
    ]
    assert played["repetitionCount"] is None or played["repetitionCount"] > 1000
