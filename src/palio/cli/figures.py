"""Figures for people: amounts, times and rates in few characters."""

from __future__ import annotations

_STEPS = ("", "k", "M", "G", "T")


def amount(number: float) -> str:
    """A number in few characters.

    >>> amount(7), amount(1234), amount(56_789_000), amount(0.25)
    ('7', '1.23 k', '56.8 M', '0.25')
    """
    step = 0
    while abs(number) >= 999.5 and step < len(_STEPS) - 1:
        number /= 1000
        step += 1
    shown = f"{number:.3g}"
    return f"{shown} {_STEPS[step]}" if step else shown


def size(number: float) -> str:
    """An amount of bytes.

    >>> size(0), size(2_500_000)
    ('0 B', '2.5 MB')
    """
    shown = amount(number)
    return f"{shown}B" if " " in shown else f"{shown} B"


def duration(seconds: float) -> str:
    """How long something takes, or has taken.

    >>> duration(5.25), duration(3725), duration(200_000)
    ('5.2 s', '1 h 2 min', '2 d 7 h')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86_400)
    if hours < 1:
        return f"{minutes} min {int(seconds % 60)} s"
    return f"{hours} h {minutes % 60} min" if days < 1 else f"{days} d {hours % 24} h"
