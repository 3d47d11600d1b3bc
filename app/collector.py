"""Python's collector of cycles, for a process that must not pause.

Nearly everything is freed by its last reference, at once. The collector looks for the rest, and its
full look goes through every object there is, of the libraries too: with Python's settings that took
60 to 100 ms out of each two or three seconds of streaming, in which no reader got a word.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Containers made and not yet freed, between two looks at the youngest. Steady streaming frees as
# many as it makes and stays below it; at Python's 700 it was 90 looks a second, a twentieth of the
# CPU. What such a look finds are 1 to 2 MB.
YOUNGEST = 5_000
# So many of them to one look at the survivors, so many of those to a full one: as Python's.
SURVIVORS, FULL = 10, 10


@contextmanager
def at_rest() -> Iterator[Callable[[], None]]:
    """No collection while the program starts: it makes objects and hardly any garbage.

    Gives the function to be called when it has started: what there is by then stays for good, is
    never looked at again, and collection begins for what comes. It also begins after the block.
    """

    def started() -> None:
        gc.freeze()
        gc.set_threshold(YOUNGEST, SURVIVORS, FULL)
        gc.enable()

    gc.disable()
    try:
        yield started
    finally:
        gc.enable()
