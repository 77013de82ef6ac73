"""The byte vectors of docs/protocol.md, each checked in every direction."""

from __future__ import annotations

import re
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from palio import Advertisement, Constraint, Envelope, Filter, Limits, Notification, NotificationId, Pattern, Trace
from palio.codec import json, msgpack, parts
from palio.errors import DecodeError
from palio.model.limits import DEFAULT_LIMITS, HIGHEST_LIMITS, PROTOCOL_LIMITS, WIRE_FIELDS
from tests.codec.documents import FORMS, exact

CHAPTER = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text(encoding="utf-8")

CLASSES = {each.__name__: each for each in (Advertisement, Constraint, Envelope, Filter, Notification, Pattern)}
NAMES = {**CLASSES, "NotificationId": NotificationId, "Trace": Trace, "datetime": datetime, "UTC": UTC}

HEADING = re.compile(r"^#### (.+)\n", re.MULTILINE)
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
REFUSAL = re.compile(r'^Decode as `(\w+)`; refused with "(.+)"\.$', re.MULTILINE)


class Vector(NamedTuple):
    """A heading of level four with the text and the code blocks below it."""

    name: str
    text: str
    blocks: dict[str, str]

    def value(self) -> object:
        return eval(self.blocks["python"], dict(NAMES))

    def data(self, form: str) -> bytes:
        if form == "msgpack":
            return bytes.fromhex(self.blocks["hex"])
        return self.blocks["json"].removesuffix("\n").encode()

    def form(self) -> str:
        return "msgpack" if "hex" in self.blocks else "json"


def read_section(title: str) -> list[Vector]:
    _, _, rest = CHAPTER.partition(f"\n## {title}\n")
    section = re.split(r"^## ", rest, maxsplit=1, flags=re.MULTILINE)[0]
    vectors = []
    for name, body in zip(*[iter(HEADING.split(section)[1:])] * 2, strict=True):
        found = BLOCK.findall(body)
        assert len({kind for kind, _ in found}) == len(found), f"{name}: two blocks of one kind"
        vectors.append(Vector(name, BLOCK.sub("", body), dict(found)))
    return vectors


WRITTEN = read_section("Byte vectors")
ACCEPTED = read_section("Accepted bytes")
REFUSED = read_section("Refused bytes")


def each(vectors: list[Vector]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("vector", [pytest.param(vector, id=vector.name) for vector in vectors])


def test_all_vectors_are_found():
    assert len(WRITTEN) >= 40
    assert len(ACCEPTED) >= 11
    assert len(REFUSED) >= 127
    everything = [*WRITTEN, *ACCEPTED, *REFUSED, *read_section("Frames in bytes")]
    assert len(everything) == len(HEADING.findall(CHAPTER))
    assert len({vector.name for vector in everything}) == len(everything)
    assert {type(vector.value()) for vector in WRITTEN} == set(CLASSES.values())
    assert CHAPTER.count("```") == 2 * sum(len(vector.blocks) for vector in everything)


@each(WRITTEN)
def test_written(vector: Vector):
    assert set(vector.blocks) == {"python", "hex", "json"}
    assert vector.text.strip()
    value = vector.value()
    for name, codec in FORMS.items():
        data = vector.data(name)
        assert codec.encode(value) == data
        decoded = codec.decode(type(value), data)
        assert decoded == value
        assert exact(decoded) == exact(value)
        assert codec.encode(decoded) == data
    assert exact(json.decode(type(value), vector.data("json").decode())) == exact(value)


@each(WRITTEN)
def test_one_form_can_be_rewritten_in_the_other(vector: Vector):
    cls = type(vector.value())
    assert json.encode(msgpack.decode(cls, vector.data("msgpack"))) == vector.data("json")
    assert msgpack.encode(json.decode(cls, vector.data("json"))) == vector.data("msgpack")


@each(ACCEPTED)
def test_accepted(vector: Vector):
    assert len(vector.blocks) == 2
    value, codec = vector.value(), FORMS[vector.form()]
    decoded = codec.decode(type(value), vector.data(vector.form()))
    assert exact(decoded) == exact(value)
    assert codec.encode(decoded) != vector.data(vector.form()), "Palio writes this; it belongs to the byte vectors"


@each(REFUSED)
def test_refused(vector: Vector):
    assert len(vector.blocks) == 1
    ((kind, fragment),) = REFUSAL.findall(vector.text)
    with pytest.raises(DecodeError) as caught:
        FORMS[vector.form()].decode(CLASSES[kind], vector.data(vector.form()))
    assert fragment in str(caught.value)


def test_table_of_limits():
    rows = re.findall(r"^\| `(\w+)` \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|", CHAPTER, re.MULTILINE)
    for_text_only = {"text_characters", "nesting", "union_filters"}
    assert {name for name, *_ in rows} == {field.name for field in fields(Limits)} - for_text_only == set(WIRE_FIELDS)
    for name, *numbers in rows:
        columns = [getattr(limits, name) for limits in (DEFAULT_LIMITS, HIGHEST_LIMITS, PROTOCOL_LIMITS)]
        assert [int(number.replace(",", "")) for number in numbers] == columns


def test_version_and_nesting():
    assert f"This chapter specifies version {parts.VERSION} of both forms." in CHAPTER
    assert f"Nesting has a fixed bound of {parts.DEPTH} levels" in CHAPTER
