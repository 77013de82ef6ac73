"""Whatever subscriptions come and go, the server holds what is wanted: no less and no more."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from palio.client.subscriptions import Subscription, Subscriptions, Wanted, covers
from palio.model import Filter, Notification, Pattern

FILTERS = [
    Filter.parse(text)
    for text in (
        "x any",
        "x > 0",
        "x > 1",
        "x >= 2",
        "x = 1",
        "x = 2",
        "integer x > 0",
        "x > 0 and y any",
        "y any",
        "y = 1",
    )
]
PATTERNS = [Pattern([one, other]) for one in FILTERS[:4] for other in FILTERS[:3]]
NOTIFICATIONS = [
    Notification({name: value for name, value in (("x", x), ("y", y)) if value is not None})
    for x in (None, 0, 1, 1.5, 2, 3)
    for y in (None, 0, 1)
]
WANTED = st.one_of(
    st.lists(st.sampled_from(FILTERS), min_size=1, max_size=3, unique=True).map(tuple),
    st.sampled_from(PATTERNS).map(lambda pattern: (pattern,)),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("subscribe"), WANTED),
        st.tuples(st.just("leave"), st.integers(0, 9)),
        st.tuples(st.just("cancel"), st.sampled_from([*FILTERS, *PATTERNS])),
    ),
    max_size=20,
)


class Held:
    """What a server has of one party, as it is specified."""

    def __init__(self) -> None:
        self.held: set[Wanted] = set()

    def do(self, operation: str, wanted: Wanted) -> None:
        covered = {each for each in self.held if covers(wanted, each)}
        if operation == "unsubscribe":
            self.held -= covered
        elif not any(covers(each, wanted) for each in self.held):
            self.held = self.held - covered | {wanted}


@given(STEPS)
def test_the_server_holds_what_is_wanted(steps: list[tuple[str, object]]) -> None:
    server, client = Held(), Subscriptions()
    for step, argument in steps:
        live = list(client)
        if step == "subscribe":
            subscription = Subscription(argument, 1, "drop_oldest")  # type: ignore[arg-type]
            client.add(subscription)
            for wanted in subscription.wanted:
                server.do("subscribe", wanted)
        elif step == "leave" and live:
            left = live[argument % len(live)]  # type: ignore[operator]
            assert client.remove(left)
            for cancelled, instead in client.changes(left.wanted):
                server.do("unsubscribe", cancelled)
                for wanted in instead:
                    server.do("subscribe", wanted)
        elif step == "cancel":
            client.cancel(argument)  # type: ignore[arg-type]
            server.do("unsubscribe", argument)  # type: ignore[arg-type]
        every = client.wanted()
        assert server.held <= set(every)
        assert all(any(covers(held, wanted) for held in server.held) for wanted in every)
    for notification in NOTIFICATIONS:
        expected = {each for each in client if any(_matches(wanted, notification) for wanted in each.wanted)}
        before = {each: each.dropped + len(each._waiting) for each in client}
        client.deliver(notification)
        assert {each for each in client if each.dropped + len(each._waiting) > before[each]} == expected


def _matches(wanted: Wanted, notification: Notification) -> bool:
    return isinstance(wanted, Filter) and wanted.matches(notification)
