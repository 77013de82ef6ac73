"""A cluster whose servers have faults: pauses, slowness, wrong clocks, bad disks, crashes at chosen effects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from random import Random

from palio.codec.frames import Options
from palio.model import Mode
from palio.node.containment import BrokenNodeError
from palio.node.node import Node, NodeSettings
from palio.node.ports import DeliverBlock, Fault, Fetched, FromPeer, Input, Lost, Output, Persisted, Room
from palio.sim.engine.blocks import Blocks, one_by_one
from palio.sim.engine.clock import Clock
from palio.sim.engine.cluster import Cluster, handled
from palio.sim.engine.network import FAIR
from palio.sim.engine.queue import Queue, Taken
from palio.sim.engine.recording import Entry, InjectedError, RecordingNode
from palio.sim.faults.crash_points import CrashPoint, Effect
from palio.sim.histories.history import Step


class TroubledCluster(Cluster):
    """Adds the faults that concern whole servers. Whoever owns it is told when a server dies by itself."""

    make_node: Callable[..., Node] = RecordingNode

    def __init__(
        self, random: Random, latency: Callable[[str, str], int], died: Callable[[str, bool], None] = lambda *_: None
    ) -> None:
        super().__init__(random, latency)
        self._died = died
        self.in_blocks = False
        """Whether publications come to servers in blocks."""
        self._blocks: dict[str, Blocks] = {}
        self.options: dict[tuple[str, int], Options] = {}
        """Those of publications that have some, by party and number."""
        self.promised: dict[tuple[str, int], Mode] = {}
        """What the acceptance of publications that came in blocks has promised."""
        self._queues: dict[str, Queue] = {}
        """Of servers that are paused or slow; others take everything at once."""
        self._crash_points: dict[str, CrashPoint] = {}
        self.deaths: list[str] = []
        """Servers that died by themselves, each time they did."""
        self.faults: Counter[str] = Counter()
        self.failed_links: list[str] = []
        """Servers that have given up a link because of a fault; whoever owns this takes them."""

    # -- what comes in -------------------------------------------------------------------------------------------------

    def start(self, settings: NodeSettings, inputs: Iterable[Input] = ()) -> None:
        """A server begins, or goes on with what is on its disk; its clock may be another one."""
        if settings.server in self._clocks:
            self._clocks[settings.server].restart(self.scheduler.now)
        super().start(settings, inputs)

    def crash(self, server: str, *, torn: bool = False, is_power: bool = True) -> bool:
        """A server dies; what waited for it was never taken."""
        self._crash_points.pop(server, None)
        self._blocks.pop(server, None)
        queue = self._queues.pop(server, None)
        if queue is not None:
            queue.take()
            if queue.service:
                self._queue(server).service = queue.service  # it will be as slow when it comes back
        is_torn = super().crash(server, torn=torn, is_power=is_power)
        self.faults["torn"] += is_torn
        return is_torn

    def give(self, server: str, inputs: Iterable[Input], taken: Taken | None = None) -> None:
        """Something comes in for a server; ``taken`` is called when the server takes it, now or later."""
        queue = self._queues.get(server)
        if queue is not None:
            queue.put(inputs, taken)
            return
        if taken is not None:
            taken()
        self._handle(server, inputs)

    def _handle(self, server: str, inputs: Iterable[Input]) -> None:
        node = self.nodes[server]
        try:
            outputs = self._said(server, node, inputs)
        except BrokenNodeError as error:
            if not isinstance(error.__cause__, InjectedError):
                raise error.__cause__ or error from None  # a bug, which the run has found
            self._break(server)
            return
        point = self._crash_points.get(server)
        for output in outputs if point is None else point.before(outputs):
            self._take(server, output)
        if point is not None and point.is_over:
            self._die(server, "crash-at")
        else:
            self._plan(server, node)

    def _said(self, server: str, node: Node, inputs: Iterable[Input]) -> list[Output]:
        """What a node says to inputs, with deliveries one by one."""
        now = self.time(server)
        if self.in_blocks:
            blocks = self._blocks.setdefault(server, Blocks(self.options, self.promised))
            said: Iterable[Output] = blocks.handle(node, inputs, now)
        else:
            said = handled(node, inputs, now)
        outputs: list[Output] = []
        for each in said:
            outputs += one_by_one(each) if isinstance(each, DeliverBlock) else (each,)
        return outputs

    def _failed(self, server: str, fault: Fault) -> None:
        """A node has contained a fault that was put into it."""
        if InjectedError.__name__ not in fault.stack:
            super()._failed(server, fault)
        self.faults["fault"] += 1
        if fault.where == FromPeer.__name__:
            self.failed_links.append(server)

    def _break(self, server: str) -> None:
        """The state of a node may be wrong after a fault: its server stops at once."""
        self._die(server, "broken")

    def log(self, server: str) -> list[Entry]:
        """What has reached a running server since it last lost everything."""
        if server in self.disks:
            return [value for key, value in self.disks[server].records.items() if key[0] == "log"]
        node = self.nodes[server]
        return node.log if isinstance(node, RecordingNode) else []

    def _written(self, server: str, node: Node, persisted: Persisted) -> None:
        if not self._is_struck(server, node, "written"):
            super()._written(server, node, persisted)

    def _read(self, server: str, node: Node, fetched: Fetched) -> None:
        if not self._is_struck(server, node, "fetched"):
            super()._read(server, node, fetched)

    def _is_struck(self, server: str, node: Node, effect: Effect) -> bool:
        point = self._crash_points.get(server)
        if point is None or self.nodes.get(server) is not node or not point.strikes(effect):
            return False
        self._die(server, "crash-at")
        return True

    def _die(self, server: str, fault: str) -> None:
        """A server dies, and nobody wanted that; a write that fails is no loss of power."""
        self.faults[fault] += 1
        self.deaths.append(server)
        is_power = self.syncing is None or (fault == "crash-at" and self.syncing.random() < 0.5)
        self.crash(server, torn=True, is_power=is_power)
        self._died(server, is_power)

    # -- troubles ------------------------------------------------------------------------------------------------------

    def inject(self, step: Step, servers: Iterable[str]) -> None:
        """What a step brings over the network of some servers, or over one of them."""
        server = step.server
        match step.do:
            case "weather":
                self.network.weather = step.weather or FAIR
            case "cut":
                self.network.cut(server, step.peer)
            case "part":
                self.network.part(step.servers, [name for name in servers if name not in step.servers])
            case "join":
                self.network.join()
            case "clock":
                self.set_clock(server, step.time, step.rate)
            case "slow":
                self.slow(server, step.time)
            case "pause":
                self.pause(server)
            case "resume":
                self.resume(server)
            case "crowd" | "thin":
                self.crowd(server, is_over=step.do == "thin")
            case _:
                self._inject_disk_fault(step)

    def _inject_disk_fault(self, step: Step) -> None:
        server, disk = step.server, self.disks.get(step.server)
        if step.do == "crash-at" and step.effect is not None:
            self.crash_at(server, step.effect, step.nth)
        elif disk is None:
            return
        elif step.do == "full":
            self.faults["full"] += not disk.is_full
            disk.is_full = True
        elif step.do == "room":
            disk.make_room()
        elif step.do == "fail":
            disk.fail(partial(self._die, server, "fail"))

    def pause(self, server: str) -> None:
        """A running server does nothing any more until it goes on; all that comes in waits."""
        if server in self.nodes:
            self.faults["pause"] += 1
            self._queue(server).is_paused = True

    def resume(self, server: str) -> None:
        """A server that was paused goes on."""
        queue = self._queues.get(server)
        if queue is not None:
            queue.is_paused = False
            queue.serve()

    def crowd(self, server: str, *, is_over: bool) -> None:
        """A server has no room for what its neighbours bring; or has again."""
        if server in self.nodes:
            self.faults["crowd"] += not is_over
            self.give(server, [Room(is_over)])

    def give_up(self, server: str, peer: str, taken: Taken) -> None:
        """A running server waits for a neighbour no longer."""
        if server in self.nodes:
            self.faults["give-up"] += 1
            self.give(server, [Lost(peer)], taken)

    def slow(self, server: str, service: int) -> None:
        """From now on all that a server handles keeps it busy for some time."""
        self.faults["slow"] += bool(service)
        self._queue(server).service = service

    def _queue(self, server: str) -> Queue:
        if server not in self._queues:
            self._queues[server] = Queue(self.scheduler, partial(self._handle, server))
        return self._queues[server]

    def set_clock(self, server: str, offset: int, rate: int) -> None:
        """A server's clock is off, or runs at a rate (in percent) that is not right."""
        self.faults["clock"] += 1
        self._clocks.setdefault(server, Clock()).set(offset, rate, self.scheduler.now)
        if self._wakes.pop(server, None) is not None:
            self._plan(server, self.nodes[server])  # what is due by the clock is due at another time now

    def crash_at(self, server: str, effect: Effect, nth: int) -> None:
        """A running server will die at its n-th effect of a kind."""
        if server in self.nodes:
            self._crash_points[server] = CrashPoint(effect, nth)

    def heal(self) -> None:
        """All troubles are over, but for wrong clocks: nothing that is promised depends on them."""
        self.network.mend()
        self._crash_points.clear()
        for disk in self.disks.values():
            disk.fail(None)
            disk.make_room()
        for server, queue in list(self._queues.items()):
            queue.service = 0
            self.resume(server)
        for server in list(self.nodes):
            self.crowd(server, is_over=True)
