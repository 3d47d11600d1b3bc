"""Durations as people say them."""

import pytest

from app.durations import spoken


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 seconds"),
        (0.5, "0.5 seconds"),
        (1, "1 second"),
        (9.99, "9.99 seconds"),
        (60, "60 seconds"),
        (119.4, "119 seconds"),
        (121, "2 minutes 1 second"),
        (300, "5 minutes"),
        (3600, "1 hour"),
        (90_061, "25 hours 1 minute 1 second"),
    ],
)
def test_durations_are_said_as_people_do(seconds: float, text: str) -> None:
    assert spoken(seconds) == text
