"""Which cancellations mean that nobody wants a response any more."""

import trio

# What the turns' nursery and the program say when they end. The turn is found at the next start and
# goes on with the response, so the provider has to keep writing it.
_PUT_OFF = frozenset({"shutdown", "SIGINT", "SIGTERM"})


def is_for_good(cancelled: trio.Cancelled) -> bool:
    """Whether the response is given up: stopped by a person, or past a deadline.

    Not so where the server shuts down, or falls over the fault of another task.
    """
    return cancelled.source in ("explicit", "deadline") and cancelled.reason not in _PUT_OFF
