"""What parties ask for in frames that are whole, and make no sense."""

from __future__ import annotations

import pytest

from palio.client import RefusedError
from palio.codec.control import Subject
from palio.model import Advertisement, Filter, Pattern
from tests.client.puppet import client_of
from tests.serving import run, serving

FILTER = Filter.parse("x = 1")
PATTERN = Pattern.parse("x = 1 then x = 2")
ADVERTISEMENT = Advertisement.parse("x any")


@pytest.mark.parametrize(
    ("operation", "subject"),
    [
        ("subscribe", ADVERTISEMENT),
        ("unsubscribe", ADVERTISEMENT),
        ("advertise", FILTER),
        ("advertise", PATTERN),
        ("unadvertise", FILTER),
        ("watch", PATTERN),
        ("unwatch", PATTERN),
    ],
)
def test_an_operation_about_the_wrong_thing_is_refused_and_harms_nobody(operation: str, subject: Subject) -> None:
    async def story() -> None:
        async with serving() as server, client_of(server) as eva:
            assert eva._connection is not None
            with pytest.raises(RefusedError, match=f"one cannot {operation}") as refused:
                await eva._connection.ask(operation, subject)
            assert refused.value.code == "invalid"
            await eva.publish(x=1)

    run(story())
