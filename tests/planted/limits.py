"""Planted bugs that show where servers have different limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from palio.model import Limits
from palio.node import peer_limits
from palio.node.peer_limits import PeerLimits, _Forms
from palio.routing.messages import Message, Standing, Subscribe
from palio.sim.engine.cluster import Cluster
from tests.planted.bugs import TREES, Bugs

BUGS = Bugs("limits")
_Right = Callable[..., Any]


@BUGS.plant(Cluster, "door", (*TREES, "nf"))
def _configured_limits_between_servers(_right: _Right) -> _Right:
    """A server applies its configured limits to what its peers send, too."""

    def door(cluster: Cluster, server: str) -> Limits:
        return cluster.nodes[server].settings.limits

    return door


@BUGS.plant(PeerLimits, "fit", (*TREES, "nf"))
def _limits_of_peers_ignored(_right: _Right) -> _Right:
    """A peer is sent what it cannot take."""

    def fit(_limits: PeerLimits, _peer: str, said: Sequence[Message], _now: int) -> Sequence[Message]:
        return said

    return fit


@BUGS.plant(peer_limits, "widened", ("as", "aa"))
def _large_filter_dropped(right: _Right) -> _Right:
    """A filter that a peer cannot take is not sent to it."""

    def widened(standing: Standing, limits: Limits) -> Standing | None:
        form: Standing | None = right(standing, limits)
        return None if isinstance(standing, Subscribe) and form is not standing else form

    return widened


@BUGS.plant(_Forms, "end", ("as", "aa"))
def _widened_form_taken_back_too_early(_right: _Right) -> _Right:
    """A widened filter is taken back with the first of those for which it stands."""

    def end(forms: _Forms, standing: Standing) -> Standing | None:
        form = forms.forms.pop(standing, None)
        if form is None or form not in forms.counts:
            return None
        del forms.counts[form]
        return form

    return end


@BUGS.plant(_Forms, "begin", ("as", "aa"))
def _widened_form_sent_twice(right: _Right) -> _Right:
    """A widened filter is sent again for each of those for which it stands."""

    def begin(forms: _Forms, standing: Standing, form: Standing | None) -> bool:
        right(forms, standing, form)
        return form is not None

    return begin


@BUGS.plant(PeerLimits, "recall", ("as", "aa"), ("crashes", "disks"))
def _forms_forgotten_by_a_restart(_right: _Right) -> _Right:
    """A server that comes back does not know in which form its peers were told of filters."""
    return lambda *_: None
