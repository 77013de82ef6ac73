"""Three feeds that look real: stock ticks, flights and sensors. The same seed gives the same notifications."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from random import Random

from palio.model import Notification

Feed = Callable[[int], Iterator[Notification]]

BEGIN = datetime(2026, 7, 2, 6, 0, tzinfo=UTC)
"""When the feeds begin, by their own clocks: they do not know the time of day, or no two runs would be the same."""

_PRICES = {"DIS": 112.0, "MSFT": 431.0, "NSCP": 24.5, "RACE": 388.0, "ENI": 14.2}
_CITIES = ("FCO", "LIN", "MXP", "NAP", "CDG", "LHR", "JFK", "VIE")
_ROOMS = ("archive", "kitchen", "server room", "stage", "tower")


def ticks(seed: int) -> Iterator[Notification]:
    """Prices that walk at random; ``change`` is in per cent, and ``lit`` tells whether the market shows the order.

    >>> print(next(ticks(1)))
    change = 0.13; lit = true; price = 388.5; symbol = "RACE"; volume = 2300
    """
    random = Random(f"ticks {seed}")
    prices = dict(_PRICES)
    while True:
        symbol = random.choice(list(prices))
        before = prices[symbol]
        # now and then there is news, and the price leaps; it comes back to where it began, or it would be lost in a day
        step = random.gauss(0, 2.5) if random.random() < 0.1 else random.gauss(0, 0.5)
        drift = (_PRICES[symbol] / before - 1) * 5
        prices[symbol] = max(0.01, round(before * (1 + (step + drift) / 100), 2))
        yield Notification(
            symbol=symbol,
            price=prices[symbol],
            change=round((prices[symbol] / before - 1) * 100, 2),
            volume=100 * random.randint(1, 40),
            lit=random.random() < 0.9,
        )


def flights(seed: int) -> Iterator[Notification]:
    """A few flights at a time, each from boarding to landing; some are late.

    >>> print(next(flights(1)))
    event = "boarding"; flight = "PA 100"; from = "NAP"; scheduled = 2026-07-02T06:40:00Z; to = "VIE"
    """
    random = Random(f"flights {seed}")
    under_way: list[Iterator[Notification]] = []
    number = 100
    while True:
        if len(under_way) < 4:
            under_way.append(_flight(random, number))
            number += 1
        flight = random.choice(under_way)
        told = next(flight, None)
        if told is None:
            under_way.remove(flight)
        else:
            yield told


def _flight(random: Random, number: int) -> Iterator[Notification]:
    origin, destination = random.sample(_CITIES, 2)
    due = BEGIN + timedelta(minutes=40 + 5 * (number - 100))
    known = Notification({"from": origin}, flight=f"PA {number}", to=destination, scheduled=due)
    yield Notification(known, event="boarding")
    if random.random() < 0.5:
        yield Notification(known, event="delayed", minutes=5 * random.randint(1, 18))
    yield Notification(known, event="departed", gate=f"{random.choice('ABC')}{random.randint(1, 30)}")
    yield Notification(known, event="landed")


def sensors(seed: int) -> Iterator[Notification]:
    """Temperatures of rooms, and alarms with a level and the sensor's raw reading.

    >>> print(next(sensors(1)))
    celsius = 21.1; room = "tower"
    """
    random = Random(f"sensors {seed}")
    heat = dict.fromkeys(_ROOMS, 21.0)
    while True:
        room = random.choice(_ROOMS)
        heat[room] = round(heat[room] + random.gauss(0, 1.2) + (21 - heat[room]) * 0.1, 1)
        yield Notification(room=room, celsius=heat[room])
        if random.random() < 0.35:
            event = random.choice(("fire", "smoke", "door", "water"))
            raw = bytes([random.randrange(256), random.randrange(256)])
            yield Notification(
                event=event, room=room, level=random.randint(1, 10), raw=raw, drill=random.random() < 0.1
            )
