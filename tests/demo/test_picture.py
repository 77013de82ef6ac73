"""The picture of the demonstration is drawn from its parts, and is the one that was drawn last."""

from __future__ import annotations

import runpy
from pathlib import Path
from xml.etree import ElementTree

from palio.demo.servers import TREE
from palio.demo.show import READERS

ROOT = Path(__file__).parents[2]


def test_the_picture_is_current() -> None:
    drawn = runpy.run_path(str(ROOT / "scripts" / "demo-picture"))["picture"]()
    assert (ROOT / "docs" / "images" / "demo.svg").read_text() == drawn, "run: .venv/bin/python scripts/demo-picture"
    texts = [each.text for each in ElementTree.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")]
    assert set(TREE) <= set(texts)
    assert all(any(text and text.startswith(f"{reader.name}: ") for text in texts) for reader in READERS)
