"""What a hostile peer may send."""

from __future__ import annotations

import subprocess
import sys

import pytest

from palio import Constraint, Filter, Limits, Notification, Pattern
from palio.codec import json, msgpack
from palio.errors import DecodeLimitError
from tests.codec.refusals import (
    CLASSES,
    HUGE,
    body,
    both_forms,
    refuse,
)

HOSTILE_TEXTS = {
    "brackets": lambda: b"[" * HUGE,
    "brackets that close": lambda: b"[" * (HUGE // 2) + b"]" * (HUGE // 2),
    "brackets in pairs": lambda: b"[]" * (HUGE // 20),
    "closing brackets": lambda: b"]" * (HUGE // 10),
    "braces": lambda: b"{" * HUGE,
    "objects": lambda: b'{"a":' * (HUGE // 5),
    "brackets in an attribute": lambda: b'{"palio":1,"notification":{"x":' + b"[" * HUGE,
    "objects in an attribute": lambda: b'{"palio":1,"notification":{"x":' + b'{"time":' * (HUGE // 8),
    "brackets in a filter": lambda: b'{"palio":1,"filter":' + b"[" * HUGE + b"]" * HUGE + b"}",
    "brackets in a pattern": lambda: b'{"palio":1,"pattern":[[' + b"[" * HUGE,
    "brackets in a version": lambda: b'{"palio":' + b"[" * HUGE,
    "brackets after a string with brackets": lambda: b'{"palio":"]]]]]\\"]]]","x":' + b"[" * HUGE,
    "minus signs": lambda: b"-" * HUGE,
    "digits": lambda: b"9" * HUGE,
    "quotes": lambda: b'"' * (HUGE // 10),
    "zeros": lambda: bytes(HUGE),
}
HOSTILE_BYTES = {
    "arrays": lambda: b"\x91" * HUGE,
    "arrays of two": lambda: b"\x92" * HUGE,
    "empty arrays": lambda: b"\xdd" + (HUGE // 10).to_bytes(4, "big") + b"\x90" * (HUGE // 10),
    "arrays 16": lambda: b"\xdc\x00\x01" * (HUGE // 3),
    "maps": lambda: b"\x81" * HUGE,
    "maps with keys": lambda: b"\x81\xa1a" * (HUGE // 3),
    "arrays in an attribute": lambda: body(b"\x91" * HUGE),
    "maps in an attribute": lambda: body(b"\x81\xa1a" * (HUGE // 3)),
    "arrays in a filter": lambda: b"\x92\x01" + b"\x91" * HUGE,
    "maps in a filter": lambda: b"\x92\x01" + b"\x81" * HUGE,
    "arrays as the version": lambda: b"\x92" + b"\x91" * HUGE,
    "arrays as a name": lambda: b"\x92\x01\x81" + b"\x91" * HUGE,
    "names that ask for more": lambda: b"\x92\x01\xdf\xff\xff\xff\xff" + b"\xa1x" * (HUGE // 2),
    "zeros": lambda: bytes(HUGE),
}


@pytest.mark.slow
@pytest.mark.parametrize("make", HOSTILE_TEXTS.values(), ids=HOSTILE_TEXTS)
def test_hostile_json(make):
    data = make()
    for cls in CLASSES:
        refuse(json, cls, data)
    if len(data) > Limits().document_bytes:
        assert isinstance(refuse(json, Notification, data, limits=Limits()), DecodeLimitError)


@pytest.mark.parametrize("make", HOSTILE_BYTES.values(), ids=HOSTILE_BYTES)
def test_hostile_msgpack(make):
    data = make()
    for cls in CLASSES:
        refuse(msgpack, cls, data)
    if len(data) > Limits().document_bytes:
        assert isinstance(refuse(msgpack, Notification, data, limits=Limits()), DecodeLimitError)


@both_forms
def test_depth_is_bounded_exactly(codec):
    """Eight levels are looked at, nine are not; no document has more than five."""
    for depth, fragment in ((8, "expected"), (9, "nested deeper")):
        if codec is msgpack:
            data = b"\x92\x01" + b"\x91" * (depth - 2) + b"\x90"
        else:
            data = b'{"palio":1,"pattern":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"
        refuse(codec, Pattern, data, fragment)


def test_depth_is_not_confused_by_strings():
    for string in ("[" * 20, "{" * 20, '"[[[[[[[[[[', "\\", '\\"[[[[[[[[[[\\', "]" * 20, "é[[[[[[[[[[\n[[[["):
        notification = Notification({string: string, "~": "["})
        assert json.decode(Notification, json.encode(notification)) == notification
    refuse(json, Notification, '{"palio":1,"notification":{"x":"]]]]]]]]]]","y":' + "[" * 20, "nested deeper")


def test_little_stack_is_enough():
    """Under a low recursion limit, and deep in a chain of calls, documents are read and refused as always."""
    script = """
import sys
from palio import *
from palio.codec import json, msgpack
from palio.errors import DecodeError

room = Limits(document_bytes=2**30)
pattern = Pattern.parse('a = "x" and b < 5 then at > 2026-07-02T12:00:00Z')
hostile = {json: [b"[" * 10**7, b'{"a":' * 10**6, b'{"palio":1,"filter":' + b"[" * 10**6],
           msgpack: [b"\\x91" * 10**7, b"\\x81" * 10**7, b"\\x92\\x01" + b"\\x91" * 10**6,
                     b"\\x92\\x01\\x81\\xa1x" + b"\\x91" * 10**6]}

def check():
    for codec, inputs in hostile.items():
        assert codec.decode(Pattern, codec.encode(pattern)) == pattern
        for data in inputs:
            for cls in (Notification, Constraint, Filter, Advertisement, Pattern, Envelope):
                try:
                    codec.decode(cls, data, room)
                except DecodeError:
                    continue
                raise AssertionError(f"{codec.__name__} took {data[:10]!r} for a {cls.__name__}")

def deep(levels):
    return deep(levels - 1) if levels else check()

check()
deep(sys.getrecursionlimit() - 100)
sys.setrecursionlimit(120)
check()
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize(
    "document",
    [
        """'"' + '\\\\"' * 250_000""",
        """'{"palio":1,' + ",".join(f'"k{n}":0' for n in range(100_000)) + ',"z":0,"z":0}'""",
    ],
    ids=["open string full of escaped quotes", "many keys before one that is given twice"],
)
def test_time_is_linear_in_the_input(document):
    """Half a megabyte takes a fraction of a second; three seconds of processor time are plenty."""
    script = f"""
import resource
from palio import Notification
from palio.codec import json
from palio.errors import DecodeError

resource.setrlimit(resource.RLIMIT_CPU, (3, 3))
try:
    json.decode(Notification, {document})
except DecodeError:
    print("refused")
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert run.stdout == "refused\n", run.stderr


def test_elements_beyond_every_limit_are_not_built():
    """Two million empty arrays are two megabytes on the wire, and would be a hundred in memory."""
    data = b"\xdd" + (2_000_000).to_bytes(4, "big") + b"\x90" * 2_000_000
    refuse(msgpack, Filter, data, "more elements than any document within the limits")
    largest = Pattern([Filter([Constraint(f"x{n}", "=", n) for n in range(4)])] * 3)
    limits = Limits(pattern_filters=3, constraints=4)
    assert msgpack.decode(Pattern, msgpack.encode(largest), limits) == largest
