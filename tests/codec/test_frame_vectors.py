"""The frames of docs/protocol.md, byte by byte, and its tables of kinds."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from palio import Advertisement, Envelope, Filter, Notification, NotificationId, Pattern, Trace
from palio.codec import control, frames, msgpack
from palio.link import frames as link_frames
from palio.link import wire
from palio.model import Mode
from palio.routing import messages
from tests.codec.test_vectors import CHAPTER, Vector, read_section

NAMES = {
    **{each.__name__: each for each in control.KINDS},
    **{each.__name__: each for each in wire.FRAME_KINDS},
    **{each.__name__: each for each in (Advertisement, Envelope, Filter, Notification, NotificationId, Pattern, Trace)},
    "Durable": control.Durable,
    "Mode": Mode,
    "Why": link_frames.Why,
    "control": control,
    "frames": frames,
    "wire": wire,
    "messages": messages,
    "datetime": datetime,
    "UTC": UTC,
}
VECTORS = read_section("Frames in bytes")


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
def test_frames_are_written_and_read_as_the_chapter_says(vector: Vector) -> None:
    data = vector.data("msgpack")
    assert eval(vector.blocks["python"], dict(NAMES)) == data
    ((kind, content),) = frames.frames_of(data)
    if kind == frames.PUBLISH:
        ((number, document),) = frames.publications_of(data)
        assert data.endswith(document)
        assert number in (0, 7)
    elif kind == frames.PUBLISH_WITH:
        number, packed, document = frames.published_with(content)
        options = frames.options_of(packed)
        assert frames.publish_with(msgpack.decode(Notification, document), options, number) == data
    elif kind == frames.DELIVER:
        assert frames.deliver(frames.delivered(content)) == data
    elif kind == frames.LINK:
        version = 1 if vector.name.endswith("in version 1") else 2
        assert frames.frame(kind, wire.encode(wire.decode(content), version)) == data
    elif kind == frames.ACCEPTED:
        assert frames.accepted(*frames.accepted_up_to(content)) == data
    elif kind == frames.DUPLICATE:
        assert frames.duplicate(frames.duplicated(content)) == data
    elif kind in (frames.ACKNOWLEDGE, frames.ACKNOWLEDGED):
        assert frames.acknowledge(frames.acknowledged(content), kind) == data
    else:
        assert control.encode(control.decode(kind, content)) == data


def test_every_kind_of_frame_has_a_vector_and_a_line() -> None:
    shown = {kind for vector in VECTORS for kind, _ in frames.frames_of(vector.data("msgpack"))}
    known = {
        *control.KINDS.values(),
        frames.PUBLISH,
        frames.PUBLISH_WITH,
        frames.ACKNOWLEDGE,
        frames.ACKNOWLEDGED,
        frames.ACCEPTED,
        frames.DUPLICATE,
        frames.DELIVER,
        frames.LINK,
    }
    assert shown == known
    listed = {int(found, 16) for found in re.findall(r"^\| `([0-9a-f]{2})` \|", CHAPTER, re.MULTILINE)}
    assert listed == known


@pytest.mark.parametrize("kinds", [wire.FRAME_KINDS, wire.MESSAGE_KINDS], ids=["frames", "messages"])
def test_frames_and_messages_of_links_are_listed(kinds: dict[type, int]) -> None:
    for cls, number in kinds.items():
        fields = ", ".join(f"`{name}`" for name in cls.__struct_fields__)  # type: ignore[attr-defined]
        assert f"\n| {number} | {cls.__name__.lower()} | {fields} |\n" in CHAPTER


@pytest.mark.parametrize("cls", control.KINDS, ids=lambda cls: cls.__name__)
def test_the_fields_of_control_frames_are_listed(cls: type[control.Control]) -> None:
    line = re.search(rf"^\| `{control.KINDS[cls]:02x}` \| (\w+) \| .* \| `\[(.*)\]` \|$", CHAPTER, re.MULTILINE)
    assert line is not None
    assert line[1] == cls.__name__.lower()
    if cls is not control.Sequence:
        assert line[2] == ", ".join(cls.__struct_fields__)
