"""The TOML files in the documents can be used, and the networks of docs/architectures.md deliver what they say."""

from __future__ import annotations

import re
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import pytest
import trustme
from click.testing import CliRunner

import palio
from palio.cli.main import palio as command
from palio.routing.architectures import ARCHITECTURES
from palio.server.config import Config, read_config
from palio.server.credentials import hash_of
from palio.server.server import Server
from tests.server.test_network import free_ports
from tests.serving import run, serving, until

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```toml\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = [
    pytest.param(text, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, text in enumerate(_BLOCK.findall(page.read_text()))
]
"""All blocks of TOML; each is a whole configuration, or tables that are added to one."""


def sections() -> dict[str, str]:
    """The sections of docs/architectures.md with configurations, by the first word of their titles."""
    text = (ROOT / "docs/architectures.md").read_text().partition("## The configurations\n")[2]
    found = re.split(r"^### `?(\w+)`?.*\n", text, flags=re.MULTILINE)
    return dict(zip(found[1::2], found[2::2], strict=True))


def network(section: str) -> dict[str, Config]:
    """The servers of a section, with ports that are free; those that are dialed come first."""
    blocks = _BLOCK.findall(sections()[section])
    free = dict(zip(("7400", "7401", "7402"), free_ports(3), strict=True))
    configs = {}
    for block in blocks:
        name = re.match(r"# (\w+)\.toml\n", block)
        assert name is not None
        config = read_config(re.sub(r"\b740\d\b", lambda found: str(free[found[0]]), block))
        assert config.server == name[1]
        configs[name[1]] = config
    return configs


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the certificates that examples name."""
    folder = tmp_path_factory.mktemp("examples")
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    for name in ("rome-ca.pem", "parties-ca.pem", "ca.pem"):
        authority.cert_pem.write_to_path(str(folder / name))
    for name in ("milan", "siena"):
        issued.cert_chain_pems[0].write_to_path(str(folder / f"{name}.pem"))
        issued.private_key_pem.write_to_path(str(folder / f"{name}-key.pem"))
    return folder


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_can_be_used(example: str, files: Path) -> None:
    text = example.replace("$sha256$...", hash_of("a token"))
    if not re.search(r"^server = ", text, re.MULTILINE):
        text = f'server = "milan"\n{text}'
    text = text.replace('"/var/lib/palio/', '"')
    path = files / "palio.toml"
    path.write_text(text)
    result = CliRunner().invoke(command, ["serve", "--config", str(path), "--check-config"])
    assert result.exit_code == 0, result.output


def test_there_are_examples() -> None:
    assert len(EXAMPLES) > 20
    assert {*sections()} == {*ARCHITECTURES, "Gateways"}


@pytest.mark.parametrize("section", sections())
def test_networks_deliver(section: str) -> None:
    async def story() -> None:
        configs = network(section)
        async with AsyncExitStack() as stack:
            servers: dict[str, Server] = {}
            for name, config in configs.items():
                connections = msgspec.structs.replace(config.connections, drain_seconds=0.5)
                config = msgspec.structs.replace(config, connections=connections)  # noqa: PLW2901
                servers[name] = await stack.enter_async_context(serving(config))
            peers = [(server, each.name) for server in servers.values() for each in server.config.peers]
            await until(lambda: all(server.peers.is_up(name) for server, name in peers))
            first, last = servers["milan"], servers["rome" if "rome" in servers else "milan"]
            async with (
                palio.connect(f"palio://127.0.0.1:{first.port}", name="publisher") as publisher,
                palio.connect(f"palio://127.0.0.1:{last.port}", name="subscriber") as subscriber,
            ):
                await publisher.advertise("kind any and x any", wait=True)
                async with subscriber.subscribe("x > 1", wait=True) as events:
                    await publisher.publish(kind="private", x=2)
                    await publisher.publish(kind="public", x=1)
                    await publisher.publish(kind="public", x=3)
                    expected = [3] if section == "Gateways" else [2, 3]
                    assert [(await anext(events))["x"] for _ in expected] == expected

    run(story(), 60)
