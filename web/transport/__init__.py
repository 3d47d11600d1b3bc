"""Hypercorn 0.18 and Quart-Trio, made safe and cheap for streams that do not end.

We keep Hypercorn's HTTP/1.1 and WebSocket protocols and its ASGI glue, and replace what it puts
around them: the accept loop, the connection, the order of shutdown. Nothing of it is patched; its
classes are subclassed, and `pinned` refuses at import what was not measured.

The faults of the stack that are guarded here (each has a test in tests/web/test_transport_*.py that
fails without the remedy):

1. idle timer and `Connection: close` are lost after a Quart response   connection: no await there
2. HTTP/2 buffers without bound                                         no HTTP/2: neither by ALPN,
                                                                        nor h2c, nor prior knowledge
3. a disconnect is not seen once the client sent something extra        http11: Pause reads ahead;
                                                                        TCP_USER_TIMEOUT
4. a reader that stops reading blocks the shutdown                      sender: write deadlines
5. a WebSocket send after the close never yields to other tasks         server: checkpoint per send
6. the thousandth request of a connection ends its streams              keep_alive_max_requests
7. quart's app.nursery dies with its first crash                        the lifespan is never run
8. WebSocket close codes: 1000 for a crash, none for a restart          application: 1011;
                                                                        http11: 1012, 1009 closes
9. quart-trio's test client hangs after a disconnect                    tests use real sockets
"""

from web.transport import pinned

pinned.check()

from web.transport.application import App, stream_response  # noqa: E402  the check comes first
from web.transport.listening import AddressInUseError, ListenError, listen  # noqa: E402
from web.transport.server import Transport  # noqa: E402

__all__ = ["AddressInUseError", "App", "ListenError", "Transport", "listen", "stream_response"]
