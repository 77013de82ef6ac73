"""What a node writes to its log is what the archive reads: blocks, single publications, options; deaths in between."""

from __future__ import annotations

from datetime import UTC, datetime

from palio import Notification
from palio.archive.archiver import Archiver
from palio.archive.disk import Disk
from palio.archive.progress import archived_up_to
from palio.archive.reading import notifications
from palio.codec import frames
from palio.node.logs import LogSettings, Retention
from palio.node.ports import Archived, PublishBlock, PublishWith
from tests.archive.logs import ListedLog
from tests.node.durable import Durable

NOW = 1_794_830_000_000_000
EXPIRES = datetime(2100, 1, 1, tzinfo=UTC)
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class NodesLog(ListedLog):
    """The log of a node: what it has of it at the moment."""

    def __init__(self, durable: Durable) -> None:
        super().__init__(name="milan", incarnation=durable.settings.incarnation)
        self.durable = durable

    def look(self) -> NodesLog:
        positions = self.durable.entries
        self.meta.first = self.begin = min(positions, default=self.durable.node.logs.position)
        self.meta.next = self.durable.node.logs.position
        self.entries = [positions[each] for each in range(self.meta.first, self.meta.next)]
        return self


def test_everything_that_a_node_takes_is_archived_once(tmp_path):
    keeps_little = LogSettings(everything=True, sweep=2, retention=Retention(count=0, bytes=0, age=0))
    durable = Durable(incarnation=3, log=keeps_little)
    log, expected = NodesLog(durable), []
    for turn in range(30):
        now = NOW + turn * 1_000_000
        in_block = [Notification(n=turn, kind="block", part=part) for part in range(3)]
        alone = Notification(n=turn, kind=turn % 2 == 0).with_payload(b"picture", "image/png")
        options = frames.Options(trace=TRACE, expires=EXPIRES, key=f"key {turn}")
        with_options = frames.publish_with(alone, options, 7)[frames.HEADER :]
        block = PublishBlock("adam", b"".join(frames.publish(each, 1) for each in in_block))
        inputs = [block, PublishWith("eva", with_options)]
        durable.handle(inputs if turn % 2 else inputs[::-1], now)
        expected += [*in_block, alone] if turn % 2 else [alone, *in_block]
        if turn % 4 == 3:
            with Archiver(log.look(), Disk(tmp_path)) as archiver:
                while archiver.step():
                    pass
                archiver.write()
            durable.handle([Archived(archived_up_to(tmp_path, 3))], now)
        if turn % 10 == 9:
            durable.die(now)
    assert log.look().meta.first > 0, "the node trims what is archived"
    with Archiver(log, Disk(tmp_path)) as archiver:
        archiver.step()
        archiver.write()
    found = list(notifications(tmp_path))
    assert found == expected
    assert archiver.progress.figures.missing == archiver.progress.figures.repeated == 0
    envelopes = [each.envelope for each in found if each.envelope is not None]
    assert {envelope.id.origin for envelope in envelopes} == {"milan"}
    assert [envelope.id.sequence for envelope in envelopes] == list(range(120))
    optional = [envelope for envelope in envelopes if envelope.publisher == "eva"]
    assert [(each.key, each.expires, str(each.trace)) for each in optional] == [
        (f"key {turn}", EXPIRES, TRACE) for turn in range(30)
    ]
