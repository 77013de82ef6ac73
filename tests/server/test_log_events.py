"""docs/operations.md explains every warning and error that a server logs."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
_EVENT = re.compile(
    r"""(?:_?log\.(?:warning|error|critical)\(|reports\.(?:warn\(|say\([^,]+,))\s*"([a-z-]+)\"""", re.MULTILINE
)


def test_every_warning_of_the_log_is_explained() -> None:
    sources = [path.read_text() for path in (ROOT / "src/palio/server").glob("*.py")]
    events = {event for source in sources for event in _EVENT.findall(source)}
    assert len(events) > 20
    events |= {"record-quarantined", "record-dropped", "peer-not-connected", "connection-closed"}  # said by variables
    page = (ROOT / "docs/operations.md").read_text()
    assert {event for event in events if not re.search(rf"`{event}\b", page)} == set()
