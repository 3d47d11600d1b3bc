"""What the terminal says when the server is ready: address, data, model, how to stop."""

import os
from collections.abc import Sequence
from pathlib import Path

from app.models.catalogue import ModelInfo

# Programs wait for this line and read the address at its end.
READY = "Unbroken is ready at {link}"
DEMO_HINT = (
    "a demonstration without a real model. To connect one, set OPENAI_API_KEY or",
    "ANTHROPIC_API_KEY, start Ollama or llama.cpp, or write unbroken.toml (README,",
    '"Connect a model").',
)


def banner(
    link: str,
    database: Path,
    default: str,
    models: Sequence[ModelInfo],
    problems: Sequence[str] = (),
) -> list[str]:
    """The lines.

    Args:
        link: what a person opens.
        default: the name of the model that answers if none is chosen.
        models: all there are.
        problems: of models that cannot answer as they are configured, a sentence each.
    """
    return [
        READY.format(link=link),
        f"  data   {_short(database)}",
        *_model(default, models),
        *(f"  note   {problem}" for problem in problems),
        "  stop   Ctrl+C; running answers go on at the next start",
    ]


def _model(default: str, models: Sequence[ModelInfo]) -> list[str]:
    if any(model.name == default and model.demo for model in models):
        first, *more = DEMO_HINT
        return [f"  model  {default}: {first}", *(f"         {line}" for line in more)]
    others = sum(not model.demo and model.name != default for model in models)
    more_to_choose = f", and {others} more to choose from" if others else ""
    return [f"  model  {default}{_at_provider(default, models)}{more_to_choose}"]


def _at_provider(name: str, models: Sequence[ModelInfo]) -> str:
    """What the provider calls it, where our name does not say so and it is known by now."""
    theirs = next((model.model for model in models if model.name == name), "")
    return f" ({theirs})" if theirs and theirs not in name else ""


def _short(path: Path) -> str:
    """With ~ for the home folder, as a person writes it."""
    home = os.path.expanduser("~")
    text = str(path)
    return f"~{text.removeprefix(home)}" if text.startswith(f"{home}/") else text


def qr(link: str) -> str:
    """The link for a phone's camera, in characters of a terminal."""
    import io

    import segno

    text = io.StringIO()
    segno.make(link, micro=False).terminal(text, compact=True)
    return text.getvalue()
