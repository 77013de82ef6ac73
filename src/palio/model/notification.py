"""A notification: a set of typed attributes, and beside them an opaque payload and an envelope."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from keyword import iskeyword
from types import MappingProxyType

from palio.errors import CallerError, DuplicateNameError, InvalidValueError, brief
from palio.model.envelope import Envelope, Payload
from palio.model.immutable import Immutable, setters
from palio.model.limits import DEFAULT_LIMITS, Limits
from palio.model.syntax.parser import parse_notification
from palio.model.syntax.printer import print_literal, print_name
from palio.model.value import TYPE_OF, Type, Value, check_name, check_value

_BASE_BYTES, _ATTRIBUTE_BYTES = 64, 32


class Notification(Immutable, Mapping[str, Value]):
    """Attributes by name, in code-point order of the names; immutable and hashable.

    Keywords are attributes, all of them; a mapping or pairs serve for names that are no Python identifiers:

    >>> n = Notification({"sensor/id": 7}, event="alarm", level=5)
    >>> n["level"], len(n), "user" in n
    (5, 3, False)
    >>> print(n)
    event = "alarm"; level = 5; sensor/id = 7

    Two notifications are equal when their attributes (types included) and payloads are. The envelope says which
    publication it was; it takes no part in equality.

    >>> Notification(level=5) == Notification(level=5.0)
    False
    """

    __slots__ = ("_attributes", "envelope", "payload")

    _attributes: dict[str, Value]
    payload: Payload | None
    envelope: Envelope | None

    def __init__(
        self, attributes: Mapping[str, Value] | Iterable[tuple[str, Value]] = (), /, **keywords: Value
    ) -> None:
        try:
            pairs = [(name, value) for name, value in _pairs(attributes)]
        except (TypeError, ValueError):
            raise CallerError(f"{brief(attributes)} is neither a mapping nor pairs of name and value") from None
        pairs.extend(keywords.items())
        checked: dict[str, Value] = {}
        for given, value in pairs:
            name = check_name(given)
            if name in checked:
                raise DuplicateNameError(f"attribute {brief(name)} is given twice; a notification has each name once")
            checked[name] = check_value(value, "attribute", name)
        _set_attributes(self, dict(sorted(checked.items())))
        _set_payload(self, None)
        _set_envelope(self, None)

    @classmethod
    def of_checked(
        cls, attributes: dict[str, Value], payload: Payload | None = None, envelope: Envelope | None = None
    ) -> Notification:
        """For decoders: attributes that were checked and sorted already, not looked at again."""
        notification = _new(cls)
        _set_attributes(notification, attributes)
        _set_payload(notification, payload)
        _set_envelope(notification, envelope)
        return notification

    @classmethod
    def parse(cls, text: str, limits: Limits = DEFAULT_LIMITS) -> Notification:
        """Read a notification in text form, typed as in the papers or with plain literals.

        >>> Notification.parse("string event = finance/exchanges/stock; float change = -4")
        Notification(change=-4.0, event='finance/exchanges/stock')
        """
        return cls(parse_notification(text, limits))

    def with_payload(self, data: bytes, content_type: str = "application/octet-stream") -> Notification:
        """The same attributes with a payload that no filter sees.

        >>> Notification(event="photo").with_payload(b"...", "image/png").payload
        Payload(data=b'...', content_type='image/png')
        """
        return self.of_checked(self._attributes, Payload(data, content_type), self.envelope)

    def with_envelope(self, envelope: Envelope) -> Notification:
        """The same content in an envelope."""
        if not isinstance(envelope, Envelope):
            raise InvalidValueError(f"envelope: {type(envelope).__name__} is no Envelope")
        copy = _new(Notification)  # every publication gets here, so nothing else is called
        _set_attributes(copy, self._attributes)
        _set_payload(copy, self.payload)
        _set_envelope(copy, envelope)
        return copy

    @property
    def attributes(self) -> Mapping[str, Value]:
        """The attributes as a read-only mapping, sorted by name."""
        return MappingProxyType(self._attributes)

    def type_of(self, name: str) -> Type:
        """The type of an attribute.

        >>> Notification(level=5).type_of("level").value
        'integer'
        """
        return TYPE_OF[self._attributes[name].__class__]

    def __getitem__(self, name: str) -> Value:
        return self._attributes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._attributes)

    def __len__(self) -> int:
        return len(self._attributes)

    @property
    def size(self) -> int:
        """About how many bytes it takes, for those who have to bound what they keep.

        >>> Notification(event="alarm").size < Notification(event="alarm").with_payload(b"." * 1000).size
        True
        """
        size = _BASE_BYTES + _ATTRIBUTE_BYTES * len(self._attributes)
        for value in self._attributes.values():
            if value.__class__ is str or value.__class__ is bytes:
                size += len(value)
        return size if self.payload is None else size + len(self.payload.data)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Notification):
            return NotImplemented
        return (
            self._attributes == other._attributes
            and self.payload == other.payload
            and [*map(type, self._attributes.values())] == [*map(type, other._attributes.values())]
        )

    def __hash__(self) -> int:
        return hash((*self._attributes.items(), self.payload))

    def __str__(self) -> str:
        return "; ".join(f"{print_name(name)} = {print_literal(value)}" for name, value in self._attributes.items())

    def __repr__(self) -> str:
        if all(map(_is_keyword_argument, self._attributes)):
            inner = ", ".join(f"{name}={value!r}" for name, value in self._attributes.items())
        else:
            inner = repr(self._attributes)
        payload = f".with_payload(<{len(self.payload.data)} bytes>)" if self.payload else ""
        return f"Notification({inner}){payload}"

    def __reduce__(self) -> tuple[object, ...]:
        return Notification.of_checked, (self._attributes, self.payload, self.envelope)


_new = object.__new__
_set_attributes, _set_payload, _set_envelope = setters(Notification, "_attributes", "payload", "envelope")


def _pairs(attributes: Mapping[str, Value] | Iterable[tuple[str, Value]]) -> Iterable[tuple[str, Value]]:
    return attributes.items() if isinstance(attributes, Mapping) else attributes


def _is_keyword_argument(name: str) -> bool:
    """Whether the name can be written as a keyword, and Python takes it as it is."""
    return name.isidentifier() and not iskeyword(name) and name.isascii() and name != "__debug__"
