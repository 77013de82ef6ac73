"""docs/metrics.md lists the metrics that a server exposes, with their types and labels, and no others."""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

import palio
from palio.server.config import Http
from palio.server.http import HttpPort
from palio.server.metrics import ServerCollector
from tests.server.test_process import get
from tests.serving import Raw, configured, run, serving, until

DOCS = Path(__file__).parents[2] / "docs"
_NAME = re.compile(r"\bpalio_[a-z_]+")


def documented() -> dict[str, tuple[str, set[str]]]:
    """Type and labels of each metric of the table."""
    rows = re.findall(r"^\| `(palio_\w+)` \| (\w+) \| ([^|]*)\|", (DOCS / "metrics.md").read_text(), re.MULTILINE)
    assert len({name for name, *_ in rows}) == len(rows)
    return {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}


def exposed_name(name: str, kind: str) -> str:
    return f"{name}_total" if kind == "counter" else name


def test_the_table_has_the_metrics_of_a_server_and_no_others(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(configured("rome")) as rome:
            tables = {
                "peers": [{"name": "rome", "url": f"palio://127.0.0.1:{rome.port}"}],
                "store": {"path": str(tmp_path / "milan.db")},
                "archive": {"path": str(tmp_path / "archive"), "seconds": 0.1},
                "connections": {"drain_seconds": 0.5},
            }
            async with serving(configured("milan", **tables)) as milan:
                port = HttpPort(milan, Http(port=0))
                port.start()
                url = f"palio://127.0.0.1:{milan.port}"
                async with palio.connect(url, name="worker", durable=True) as worker:
                    await worker.subscribe("x any")
                async with palio.connect(url) as publisher:
                    await publisher.publish(x=1)
                nonsense = await Raw.connect(milan)
                await nonsense.hello("rome", role="nobody")
                await until(lambda: milan.peers.is_up("rome") and milan.counts.refusals)
                await until(lambda: milan.archiving is not None and milan.archiving.position > 0)
                status, text = await get(port.port, "/metrics")
                assert status == 200
                expected = documented()
                found = {}
                for family in text_string_to_metric_families(text):
                    name = exposed_name(family.name, family.type)
                    assert family.documentation.endswith("."), f"{name} has no HELP text"
                    for sample in family.samples:
                        assert sample.name == name
                        assert {*sample.labels} == expected[name][1]
                    found[name] = family.type
                assert found == {name: kind for name, (kind, _) in expected.items()}
                labels = {
                    exposed_name(each.name, each.type): {*getattr(each, "_labelnames")}  # noqa: B009
                    for each in ServerCollector(milan).collect()
                }
                assert labels == {name: names for name, (_, names) in expected.items()}
                seen = {line.partition(" ")[0] for line in text.splitlines()}
                assert 'palio_link_up{peer="rome"}' in seen
                assert 'palio_durable_lag_messages{party="worker"}' in seen
                assert 'palio_refusals_total{code="name"}' in seen
                await port.stop()

    run(story(), 60)


def test_other_pages_mention_only_metrics_that_exist() -> None:
    names = {*documented()}
    for page in [*DOCS.glob("*.md"), DOCS.parent / "README.md"]:
        unknown = {*_NAME.findall(page.read_text())} - names
        assert not unknown, f"{page.name} mentions {unknown}"
