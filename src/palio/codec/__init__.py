"""Encoded forms of the model's values: MessagePack for the wire and the disk, JSON for people and browsers.

Both modules have the same two functions, ``encode(value)`` and ``decode(cls, data)``; ``docs/protocol.md`` specifies
the forms, with bytes that the tests check. Input is taken strictly: what is not exactly of the form is refused with a
:class:`~palio.errors.DecodeError` that names the place.

>>> from palio import Filter, codec
>>> codec.json.encode(Filter.parse("level > 3"))
b'{"palio":1,"filter":[{"name":"level","type":"number","op":">","value":3}]}'
>>> codec.msgpack.decode(Filter, codec.msgpack.encode(Filter.parse("level > 3")))
Filter.parse('level > 3')
"""

from palio.codec import json, msgpack

__all__ = ["json", "msgpack"]
