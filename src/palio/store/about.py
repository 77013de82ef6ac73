"""What is known of a store without reading all of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from palio.store import files, reading, reports, schema
from palio.store.inspection import require_store


def about(path: Path) -> dict[str, Any]:
    """A store's identity, version, positions, sizes, and the damage it has survived; a server may be writing to it."""
    path = files.existing(path)
    meta = require_store(path)
    connection = reading.connect(path)
    try:
        free = connection.pragma("freelist_count") * schema.PAGE_BYTES
        damage = [
            {"incarnation": incarnation, "kind": each.kind.value, "text": each.text}
            for incarnation, each in reports.read_sound(connection)
        ]
    finally:
        connection.close()
    return {
        "name": meta.name, "version": schema.VERSION, "incarnation": meta.incarnation, "is_copy": meta.is_copy,
        "openings": meta.opening, "commits": meta.commit, "records": meta.records,
        "first": meta.first, "next": meta.next, "bytes": files.size(path), "free_bytes": free, "damage": damage,
    }  # fmt: skip
