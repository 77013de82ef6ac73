"""Literals in text: quoted strings, bytes, numbers and instants."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta, timezone

from palio.errors import TextSyntaxError
from palio.model.value import MAX_INTEGER, MIN_INTEGER, is_scalar

QUOTED = re.compile(r"""b?(?:"(?:[^"\\\n]|\\[^\n])*"|'(?:[^'\\\n]|\\[^\n])*')""")
NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
INSTANT_START = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
HEXADECIMAL = re.compile(r"(?:[0-9a-fA-F]{2})+(?![\w.])")
INSTANT_RUN = re.compile(r"[\w:.+-]+")
_INSTANT = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?(?:([Zz])|([+-])(\d\d):?(\d\d))",
    re.ASCII,
)
PAPERS_INSTANT = re.compile(r"(?:[A-Z][a-z]{2},? )?([A-Z][a-z]{2}) +(\d\d?) (\d\d):(\d\d):(\d\d) ([A-Z]{1,4}) (\d{4})")
_MONTH_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES, 1)}
_ZONES = {"UTC": 0, "GMT": 0, "UT": 0, "Z": 0, "EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6}
_ZONES |= {"PST": -8, "PDT": -7}  # the zone names of RFC 822

_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_SHORT_ESCAPES = {'"': '"', "'": "'", "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def read_quoted(text: str, start: int, end: int) -> str:
    """The string between the quotes of ``text[start:end]``, escapes resolved as in JSON."""

    def resolve(match: re.Match[str]) -> str:
        code, byte, short = match.groups()
        if code:
            return chr(int(code, 16))
        if byte or short not in _SHORT_ESCAPES:
            raise TextSyntaxError(
                f"unknown escape {match[0]!r} in a string",
                text,
                body + match.start(),
                r"\" \' \\ \/ \b \f \n \r \t \uNNNN",
            )
        return _SHORT_ESCAPES[short]

    body = start + 1
    content = _ESCAPE.sub(resolve, text[body : end - 1])
    if not is_scalar(content):
        try:  # \ud83d\ude00 is one character, spelled as two surrogates
            content = content.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError:
            raise TextSyntaxError("lone surrogate in a string", text, start, "Unicode scalar values only") from None
    return content


def read_bytes(text: str, start: int, end: int) -> bytes:
    r"""The bytes of ``b"..."`` at ``text[start:end]``: ASCII, ``\xNN`` and the short escapes."""

    def resolve(match: re.Match[str]) -> str:
        code, byte, short = match.groups()
        if byte:
            return chr(int(byte, 16))
        if code or short not in _SHORT_ESCAPES:
            raise TextSyntaxError(
                f"unknown escape {match[0]!r} in bytes", text, body + match.start(), r"\xNN \" \' \\ \b \f \n \r \t"
            )
        return _SHORT_ESCAPES[short]

    body = start + 2
    raw = text[body : end - 1]
    if not raw.isascii():
        place = next(i for i, character in enumerate(raw) if not character.isascii())
        raise TextSyntaxError("character beyond ASCII in bytes", text, body + place, r"\xNN")
    return _ESCAPE.sub(resolve, raw).encode("latin-1")


def read_number(text: str, start: int, end: int) -> int | float:
    """The number at ``text[start:end]``: an integer, or a float if it has a point or an exponent."""
    digits = text[start:end]
    if _INTEGER.fullmatch(digits):
        # More digits than 64 bits can need are not even converted.
        significant = digits.lstrip("+-0")
        number = (
            int(f"{'-' if digits[0] == '-' else ''}{significant or 0}") if len(significant) <= 19 else MAX_INTEGER + 1
        )
        if not MIN_INTEGER <= number <= MAX_INTEGER:
            raise TextSyntaxError("integer outside the signed 64-bit range", text, start, "a float, such as 1e20")
        return number
    value = float(digits)
    if not math.isfinite(value):
        raise TextSyntaxError("number too large for a float", text, start, "a finite number")
    return value


def _offset(text: str, start: int, match: re.Match[str]) -> timedelta:
    hours, minutes = int(match[10]), int(match[11])
    if hours > 23 or minutes > 59:
        raise TextSyntaxError("no such instant (its zone is a day or more away)", text, start + match.start(9))
    return timedelta(hours=hours, minutes=minutes) * (-1 if match[9] == "-" else 1)


def read_instant(text: str, start: int, end: int) -> datetime:
    """The instant at ``text[start:end]``, as in RFC 3339 or as the papers print it."""
    written = text[start:end]
    if match := _INSTANT.fullmatch(written):
        year, month, day, hour, minute = map(int, match.groups()[:5])
        second, fraction = int(match[6] or 0), int((match[7] or "").ljust(6, "0"))
        offset = timedelta()
        if match[9]:
            offset = _offset(text, start, match)
    elif match := PAPERS_INSTANT.fullmatch(written):
        month, day, hour, minute, second = _MONTHS.get(match[1], 0), *map(int, match.groups()[1:5])
        year, fraction = int(match[7]), 0
        if match[6] not in _ZONES:
            raise TextSyntaxError(f"unknown time zone {match[6]}", text, start + match.start(6), " ".join(_ZONES))
        offset = timedelta(hours=_ZONES[match[6]])
    else:
        raise TextSyntaxError(
            "not an instant", text, start, "date, time and zone, such as 2026-07-02T19:30:00Z or 2026-07-02T19:30+02:00"
        )
    try:
        return datetime(year, month, day, hour, minute, second, fraction, timezone(offset)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise TextSyntaxError(f"no such instant ({error})", text, start) from None
