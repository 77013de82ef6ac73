"""Random filters, advertisements and notifications with much covering among them."""

from __future__ import annotations

from random import Random

from palio import Advertisement, Filter, Notification

_SYMBOLS = ["A", "B", "C"]


def some_filter(random: Random) -> Filter:
    """Ranges within ranges, with or without a symbol."""
    parts = []
    if random.random() < 0.6:
        parts.append(f'symbol = "{random.choice(_SYMBOLS)}"')
    if random.random() < 0.7:
        low = random.randrange(6)
        parts.append(f"x >= {low}")
        if random.random() < 0.5:
            parts.append(f"x <= {low + random.randrange(4)}")
    if random.random() < 0.2:
        parts.append("y any")
    return Filter.parse(" and ".join(parts) or "x any")


def some_advertisement(random: Random) -> Advertisement:
    """What publishers of such notifications may announce."""
    parts = [f"x >= {random.randrange(5)}", "y any"]
    symbols = random.sample(_SYMBOLS, random.randrange(1, 4))
    parts += [f'symbol = "{symbol}"' for symbol in symbols]
    return Advertisement.parse(" ; ".join(parts[random.randrange(2) :]))


def some_notification(random: Random) -> Notification:
    """One that such filters may match."""
    content: dict[str, str | int] = {}
    if random.random() < 0.9:
        content["x"] = random.randrange(8)
    if random.random() < 0.8:
        content["symbol"] = random.choice(_SYMBOLS)
    if random.random() < 0.2:
        content["y"] = 1
    return Notification(content)
