"""The one tree of errors, split by whose fault it is.

Everything Palio raises on purpose is a :class:`PalioError`. Below it stand three branches:

* :class:`CallerError` -- the caller passed something that cannot be used. It is a ``ValueError`` too,
  so code that does not know Palio still handles it sensibly.
* :class:`PeerError` -- bytes or messages that came from elsewhere broke the rules.
* :class:`InternalError` -- Palio broke one of its own promises; please report it.

Each message says what was wrong, where, and what to do about it.
"""

from __future__ import annotations

from traceback import walk_tb
from typing import Any

_BRIEF = 80  # characters of input that a message quotes
_CALLS = 12  # calls of a stack that are shown


def brief(value: object) -> str:
    """A value as messages quote it: its repr, cut if long, and always printable.

    >>> brief("a" * 100) == "'" + "a" * 76 + "..."
    True
    """
    if isinstance(value, int) and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"  # Python refuses to print very large ones
    try:
        text = repr(value) if not isinstance(value, str | bytes) else repr(value[:_BRIEF])
    except Exception:  # noqa: BLE001 (it is nested too deeply, for example)
        text = f"<{type(value).__name__}>"
    text = text.encode("utf-8", "backslashreplace").decode()
    whole = len(text) <= _BRIEF and (not isinstance(value, str | bytes) or len(value) <= _BRIEF)
    return text if whole else f"{text[: _BRIEF - 3]}..."


def printable(text: str) -> str:
    r"""Text from elsewhere, for terminals and logs: all that would end a line, or that a terminal acts on, is escaped.

    Those are control characters, line and paragraph separators, and marks that change the direction of the text.

    >>> print(printable("eva\x1b[2J\n\u202e"))
    eva\x1b[2J\n\u202e
    >>> printable("grüße, 世界")
    'grüße, 世界'
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def printable_document(document: Any) -> Any:
    r"""A document of dictionaries and lists in which all texts are printable.

    >>> printable_document({"name": ["eva\x07", 5]})
    {'name': ['eva\\x07', 5]}
    """
    if isinstance(document, str):
        return printable(document)
    if isinstance(document, dict):
        return {printable_document(key): printable_document(value) for key, value in document.items()}
    if isinstance(document, list | tuple):
        return [printable_document(each) for each in document]
    return document


def no_tls(error: Exception) -> bool:
    """Whether an error of TLS means that the other end does not speak it."""
    return getattr(error, "reason", None) in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")


def stack_of(error: BaseException) -> str:
    """The class of an error and where it was raised, innermost call first, for logs.

    It holds no values: neither the text of the error nor any local variable, because both may hold the content of
    messages.

    >>> try:
    ...     int("secret")
    ... except ValueError as error:
    ...     print(stack_of(error).partition(" ")[0])
    ValueError
    """
    found: list[str] = []
    known: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in known:
        known.add(id(cause))
        calls = [
            f"{'/'.join(frame.f_code.co_filename.split('/')[-3:])}:{line} {frame.f_code.co_qualname}"
            for frame, line in walk_tb(cause.__traceback__)
        ]
        if len(calls) > _CALLS:
            calls[1 : len(calls) - _CALLS + 1] = ["..."]
        found.append(
            " < ".join([f"{type(cause).__module__}.{type(cause).__qualname__}".removeprefix("builtins."), *calls[::-1]])
        )
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return "; caused by ".join(found)


class PalioError(Exception):
    """Base of every error that Palio raises on purpose."""


class InternalError(PalioError):
    """Palio broke one of its own invariants: a bug of ours, never the caller's or a peer's."""


class CallerError(PalioError, ValueError):
    """What the caller passed in cannot be used."""


class InvalidNameError(CallerError):
    """An attribute name that is empty, no string, or no valid Unicode."""


class InvalidValueError(CallerError):
    """A value outside the six types: NaN, an integer beyond 64 bits, a naive datetime, ..."""


class InvalidConstraintError(CallerError):
    """Type, operator and value of a constraint do not fit together."""


class DuplicateNameError(CallerError):
    """The same attribute name was given twice."""


class InvalidBatchError(CallerError):
    """Something that is no Arrow record batch, or a batch whose buffers contradict each other."""


class UnsupportedColumnError(CallerError):
    """A column of an Arrow batch whose type has no counterpart among the six; the message says what to cast it to."""


class UnknownElementError(CallerError):
    """Something was to be taken out of a collection that does not hold it."""


class LimitError(CallerError):
    """Something is larger than a configured limit.

    ``limit`` names the field of :class:`palio.model.limits.Limits`, ``allowed`` is its value and
    ``actual`` what was found (a lower bound when counting stopped early).
    """

    def __init__(self, limit: str, allowed: int, actual: int, what: str) -> None:
        self.limit = limit
        self.allowed = allowed
        self.actual = actual
        super().__init__(f"{what}: {actual:,} where at most {allowed:,} are allowed (limit {limit!r})")


class UnknownFilterError(CallerError, KeyError):
    """An id under which the index has no filter: never given out, or its filter was removed."""

    __str__ = Exception.__str__  # a KeyError would show the repr of its message


class ReadOnlyError(CallerError):
    """An index that was opened from a file cannot be changed."""


class TextSyntaxError(CallerError):
    """Text that is no filter, advertisement, pattern or notification.

    ``line`` and ``column`` count from one; ``expected`` says what would have been accepted there. The
    message shows the line with a caret under the place.
    """

    def __init__(self, problem: str, text: str, offset: int, expected: str = "") -> None:
        self.problem = problem
        self.offset = offset
        self.expected = expected
        self.line, self.column, source = _locate(text, offset)
        shown, caret = _window(source, self.column)
        message = f"line {self.line}, column {self.column}: {problem}"
        if expected:
            message += f"; expected {expected}"
        super().__init__(f"{message}\n  {shown}\n  {' ' * caret}^")


class PeerError(PalioError):
    """What arrived from elsewhere broke the rules."""


class DecodeError(PeerError, ValueError):
    """Bytes that are no valid encoding. ``path`` says where in the document the fault lies."""

    def __init__(self, problem: str, path: str = "") -> None:
        self.problem = problem
        self.path = printable(path)  # a peer chose the names in it
        super().__init__(f"{self.path}: {problem}" if path else problem)


class DecodeLimitError(DecodeError):
    """Encoded input larger than a configured limit; ``limit`` names it."""

    def __init__(self, limit: str, allowed: int, what: str, path: str = "") -> None:
        self.limit = limit
        self.allowed = allowed
        super().__init__(f"{what}: more than the {allowed:,} allowed (limit {limit!r})", path)


class FileFormatError(PeerError, ValueError):
    """A file that is none of Palio's, of another version or byte order, truncated or damaged."""


_WINDOW = 72  # columns of source shown around a syntax error


def _locate(text: str, offset: int) -> tuple[int, int, str]:
    """Line, column (from one) and source line of an offset."""
    line = text.count("\n", 0, offset) + 1
    start = text.rfind("\n", 0, offset) + 1
    end = text.find("\n", offset)
    return line, offset - start + 1, text[start : end if end >= 0 else len(text)]


def _window(source: str, column: int) -> tuple[str, int]:
    """Cut a long source line around the column; return it with the caret's indentation."""
    caret = column - 1
    start = max(0, caret - _WINDOW // 2) if len(source) > _WINDOW else 0
    shown = source[start : start + _WINDOW]
    head = "..." if start else ""
    tail = "..." if start + _WINDOW < len(source) else ""
    # Control characters would move the caret; show a blank of the same width instead.
    visible = "".join(character if character.isprintable() else " " for character in shown)
    return head + visible + tail, caret - start + len(head)
