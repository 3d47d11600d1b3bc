"""Durations as people say them."""


def spoken(seconds: float) -> str:
    """As in "2 minutes 1 second"; in seconds alone below two minutes, with parts below ten."""
    if 0 < seconds < 10:
        return f"{seconds:.3g} second{'' if seconds == 1 else 's'}"
    whole = round(seconds)
    minutes, rest = divmod(whole, 60) if whole >= 120 else (0, whole)
    hours, minutes = divmod(minutes, 60)
    named = [(hours, "hour"), (minutes, "minute"), (rest, "second")]
    return " ".join(_count(number, unit) for number, unit in named if number) or "0 seconds"


def _count(number: int, one: str) -> str:
    return f"{number} {one}" if number == 1 else f"{number} {one}s"
