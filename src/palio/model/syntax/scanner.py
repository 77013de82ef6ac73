"""Text to tokens, one at a time, because what a value may look like depends on the type before it."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum, auto
from typing import NamedTuple

from palio.errors import CallerError, LimitError, TextSyntaxError, brief
from palio.model.limits import Limits
from palio.model.syntax.literals import (
    INSTANT_RUN,
    INSTANT_START,
    NUMBER,
    QUOTED,
    read_bytes,
    read_instant,
    read_number,
    read_quoted,
)
from palio.model.syntax.words import BARE_NAME, KEYWORDS, PAPERS_PREFIX, SYMBOLS
from palio.model.value import Value, is_scalar


class Kind(Enum):
    """What a token is."""

    WORD = auto()
    KEYWORD = auto()
    LITERAL = auto()
    SYMBOL = auto()
    PUNCTUATION = auto()
    END = auto()


class Token(NamedTuple):
    """A token with its place; ``text`` is in lower case for keywords, ``value`` is set for literals."""

    kind: Kind
    text: str
    start: int
    end: int
    value: Value | None = None
    on_new_line: bool = False
    """Whether a line ended between the token before and this one."""

    def is_(self, *texts: str) -> bool:
        """Whether this is one of these keywords or punctuation marks."""
        return self.kind in (Kind.KEYWORD, Kind.PUNCTUATION) and self.text in texts


_BLANK = re.compile(r"(?:\s|#[^\n]*)*+")
"""White space and comments."""
_INLINE_BLANK = re.compile(r"[^\S\n]*")
_RAW = re.compile(r"[^;\n]*")
_WORD_CHARACTER = re.compile(r"[\w.]")
_SYMBOLS = "|".join(re.escape(symbol) for symbol in sorted([*SYMBOLS, PAPERS_PREFIX], key=len, reverse=True))
_TOKEN = re.compile(
    rf"""{_BLANK.pattern}(?:(?P<quote>b?["'])|(?P<number>[0-9+\-.])|(?P<word>{BARE_NAME.pattern})"""
    rf"""|(?P<punctuation>[();,])|(?P<symbol>{_SYMBOLS})|(?P<end>\Z))"""
)
"""Blanks and comments, then a token, or for quoted strings and numbers its first character."""

_KINDS = {"word": Kind.WORD, "punctuation": Kind.PUNCTUATION, "symbol": Kind.SYMBOL, "end": Kind.END}
_CONSTANTS = {"true": True, "false": False}


class Scanner:
    """Reads tokens from text, with one token of look-ahead.

    >>> scanner = Scanner('level >= 3', Limits())
    >>> [scanner.next().text for _ in range(3)]
    ['level', '>=', '3']
    """

    def __init__(self, text: str, limits: Limits) -> None:
        if not isinstance(text, str):
            raise CallerError(f"text is a str, not {type(text).__name__}")
        if len(text) > limits.text_characters:
            raise LimitError("text_characters", limits.text_characters, len(text), "characters of text")
        self.text = text
        self.limits = limits
        self._position = 0
        self._ahead: Token | None = None

    def peek(self) -> Token:
        """The next token, left in place."""
        if self._ahead is None:
            self._ahead = self._scan()
        return self._ahead

    def next(self) -> Token:
        """The next token, taken."""
        token = self.peek()
        self._position, self._ahead = token.end, None
        return token

    def accept(self, *texts: str) -> Token | None:
        """The next token if it is one of these keywords or punctuation marks, taken."""
        return self.next() if self.peek().is_(*texts) else None

    def raw_value(self) -> Token:
        """Everything up to ';' or the end of the line, without blanks around it, whatever it looks like."""
        match = _RAW.match(self.text, self._position)
        assert match is not None
        stripped = match[0].strip()
        start = match.start() + len(match[0]) - len(match[0].lstrip())
        if not is_scalar(stripped):
            raise self.error("lone surrogate in a string", start, "Unicode scalar values only")
        self._position, self._ahead = match.end(), None
        return Token(Kind.LITERAL, stripped, start, start + len(stripped), stripped)

    def starts_quoted(self) -> bool:
        """Whether what comes next on this line is in quotes."""
        start = _skip(_INLINE_BLANK, self.text, self._position)
        return self.text[start : start + 1] in ('"', "'")

    def match(self, pattern: re.Pattern[str], read: Callable[[str, int, int], Value]) -> Token | None:
        """A literal of a form that only the type before it makes possible, taken if it is there."""
        match = pattern.match(self.text, _skip(_INLINE_BLANK, self.text, self._position))
        if match is None:
            return None
        self._position, self._ahead = match.end(), None
        return Token(Kind.LITERAL, match[0], match.start(), match.end(), read(self.text, match.start(), match.end()))

    def error(self, problem: str, place: int | Token, expected: str = "") -> TextSyntaxError:
        """An error that points at a token or an offset."""
        offset = place if isinstance(place, int) else place.start
        return TextSyntaxError(problem, self.text, offset, expected)

    def unexpected(self, token: Token, expected: str) -> TextSyntaxError:
        """An error for a token that does not fit here."""
        found = "end of text" if token.kind is Kind.END else f"unexpected {brief(self.text[token.start : token.end])}"
        return self.error(found, token, expected)

    def _scan(self) -> Token:
        match = _TOKEN.match(self.text, self._position)
        if match is None:
            start = _skip(_BLANK, self.text, self._position)
            raise self.error(f"unexpected character {self.text[start]!r}", start)
        kind = match.lastgroup or ""
        start, end = match.span(kind)
        fresh = "\n" in self.text[self._position : start]
        if kind == "quote":
            return self._quoted(start, fresh)
        if kind == "number":
            return self._number_or_instant(start, fresh)
        if kind == "end":  # what is missing is missing after the last token, not after blank lines
            start = end = self._position
        text = match[kind]
        if kind == "word" and text.lower() in KEYWORDS:
            text = text.lower()
            return Token(Kind.KEYWORD, text, start, end, _CONSTANTS.get(text), fresh)
        return Token(_KINDS[kind], text, start, end, None, fresh)

    def _quoted(self, start: int, fresh: bool) -> Token:
        match = QUOTED.match(self.text, start)
        if match is None:
            quote = self.text[start + (self.text[start] == "b")]
            raise self.error("unterminated string", start, f"a closing {quote} on the same line")
        read = read_bytes if self.text[start] == "b" else read_quoted
        return Token(Kind.LITERAL, match[0], start, match.end(), read(self.text, start, match.end()), fresh)

    def _number_or_instant(self, start: int, fresh: bool) -> Token:
        value: Value
        if INSTANT_START.match(self.text, start):
            end = _skip(INSTANT_RUN, self.text, start)
            value = read_instant(self.text, start, end)
        else:
            end = _skip(NUMBER, self.text, start)
            if end == start or (end < len(self.text) and _WORD_CHARACTER.match(self.text, end)):
                raise self.error("malformed number", start, "a number such as 5, -0.5 or 1e6")
            value = read_number(self.text, start, end)
        return Token(Kind.LITERAL, self.text[start:end], start, end, value, fresh)


def _skip(pattern: re.Pattern[str], text: str, position: int) -> int:
    match = pattern.match(text, position)
    return match.end() if match else position
