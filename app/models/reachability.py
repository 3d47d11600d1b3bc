"""Which models answer at the moment: what a list of models shows, at no cost.

No model is asked for words here; the doctor does that.
"""

from collections.abc import Hashable, Iterable
from typing import Protocol, runtime_checkable

import msgspec
import trio

from app.models.errors import ModelError, NotConfiguredError
from app.models.interface import Model

# A list is shown at once or not at all; a server that is there answers in a tenth of this.
PROBE_SECONDS = 2.0
# A page that is reloaded, and ten tabs, ask once.
KEPT_SECONDS = 10.0

# What a server says that is there, but has no list of models, or not that one.
_HARMLESS = ("MODEL_NOT_FOUND", "MODEL_PROTOCOL", "MODEL_REQUEST_REFUSED")


class Reach(msgspec.Struct, frozen=True):
    """What is known of a model.

    Args:
        reachable: whether somebody answers at its address; None: it was not asked.
        problem: why a request would fail now, a sentence; "" where nothing is known to be wrong.
    """

    reachable: bool | None
    problem: str = ""


@runtime_checkable
class Probed(Model, Protocol):
    """A model that lies behind a network."""

    @property
    def place(self) -> Hashable:
        """What `probe` asks: of the models with the same one, one is asked for all."""

    async def probe(self) -> None:
        """Make a request that costs nothing, with the key, to the model's own address alone.

        Raises ModelError for what stands in the way; MODEL_UNREACHABLE if nobody is there.
        """


class Reachability:
    """Asks the models, and keeps for a moment what they said."""

    def __init__(self, models: Iterable[Model]) -> None:
        self._models = list(models)
        self._asking = trio.Lock()
        self._known: dict[str, Reach] = {}
        # Trio's time until which `_known` holds.
        self._until = float("-inf")

    async def known(self) -> dict[str, Reach]:
        """By the names of the models. Takes PROBE_SECONDS at most."""
        async with self._asking:
            if trio.current_time() >= self._until:
                self._known = await self._ask()
                self._until = trio.current_time() + KEPT_SECONDS
        return self._known

    async def _ask(self) -> dict[str, Reach]:
        places = {model.place: model for model in self._models if isinstance(model, Probed)}
        found: dict[Hashable, Reach] = {}

        async def ask(place: Hashable, model: Probed) -> None:
            found[place] = await reach(model)

        with trio.move_on_after(PROBE_SECONDS):
            async with trio.open_nursery() as nursery:
                for place, model in places.items():
                    nursery.start_soon(ask, place, model)
        late = Reach(False, f"No answer within {PROBE_SECONDS:g} seconds.")
        return {
            model.name: found.get(model.place, late) if isinstance(model, Probed) else Reach(True)
            for model in self._models
        }


async def reach(model: Probed) -> Reach:
    """Ask one. The caller has a deadline."""
    try:
        await model.probe()
    except ModelError as error:
        if error.code == "MODEL_UNREACHABLE":
            return Reach(False, error.text)
        if isinstance(error, NotConfiguredError):
            return Reach(None, error.text)
        return Reach(True, "" if error.code in _HARMLESS else error.text)
    return Reach(True)
