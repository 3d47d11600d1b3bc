"""A proxy that keeps event streams to itself until they end, as some do, and passes all else."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit


@contextmanager
def buffering_to(url: str) -> Iterator[str]:
    """The address of the proxy; it ends with the block."""
    upstream = ("127.0.0.1", urlsplit(url).port or 80)
    listener = socket.create_server(("127.0.0.1", 0))
    pairs: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def accept() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            server = socket.create_connection(upstream)
            pairs.extend((client, server))
            for pump in ((_pump, client, server), (_hold_streams, server, client)):
                threads.append(threading.Thread(target=pump[0], args=pump[1:]))
                threads[-1].start()

    acceptor = threading.Thread(target=accept)
    acceptor.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        for sock in (listener, *pairs):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in (acceptor, *threads):
            thread.join()
        for sock in (listener, *pairs):
            sock.close()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


def _hold_streams(source: socket.socket, sink: socket.socket) -> None:
    held = b""
    holding = False
    with suppress(OSError):
        while data := source.recv(65536):
            # A stream is the last answer of its connection.
            holding = holding or b"content-type: text/event-stream" in data.lower()
            if holding:
                held += data
            else:
                sink.sendall(data)
        sink.sendall(held)
        sink.shutdown(socket.SHUT_WR)
