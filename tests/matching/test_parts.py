"""Parts that texts must not have (``!>*``, ``!*<``, ``!*``): many such filters are decided at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import Constraint, Filter, Notification
from palio.matching import FilterIndex
from palio.model.limits import Limits
from palio.model.value import Value
from tests.matching.strategies import examples
from tests.matching.test_division import looked_at_per_event, word
from tests.matching.twins import Twins

HAS: dict[str, Callable[[str, str], bool]] = {
    "!>*": str.startswith,
    "!*<": str.endswith,
    "!*": str.__contains__,
}
OPERATORS = tuple(HAS)
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 66, 100, 127, 128, 129, 192, 200, 257, 500)


def lacking(operator: str, *parts: str, name: str = "x") -> Filter:
    return Filter([Constraint(name, operator, part) for part in parts])


@st.composite
def texts_and_parts(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    """Texts of few letters, and parts of them, some with a letter changed, from anywhere and of many sizes."""
    letters = draw(st.sampled_from(["a", "ab", "abcdefghij", "aé\0\U0001f40e"]))
    texts = draw(st.lists(st.text(letters, max_size=300), min_size=1, max_size=4))
    parts = [""]
    for _ in range(draw(st.integers(1, 25))):
        text = draw(st.sampled_from(texts))
        size = min(len(text), draw(st.sampled_from(SIZES)))
        begin = draw(st.sampled_from([0, len(text) - size, draw(st.integers(0, len(text) - size))]))
        part = text[begin : begin + size]
        if part and draw(st.booleans()):
            place = draw(st.integers(0, size - 1))
            part = part[:place] + draw(st.sampled_from(letters + "z")) + part[place + 1 :]
        parts.append(part)
    return texts, parts


@examples(2)
@given(texts_and_parts(), st.integers(40, 150), st.randoms(use_true_random=False))
def test_parts_are_excluded_as_the_model_says(drawn: tuple[list[str], list[str]], count: int, random: Random) -> None:
    texts, parts = drawn
    values: list[Value] = [*texts, 5, b"ab", ""]
    events = [Notification(x=value, y=random.choice(texts)) for value in values]
    events += [Notification(y=texts[0]), Notification(x=texts[-1]), Notification()]
    twins = Twins()
    for _ in range(count):
        found = [Constraint(random.choice("xxxy"), random.choice(OPERATORS), random.choice(parts))]
        if random.random() < 0.3:
            found.append(Constraint("y", random.choice([*OPERATORS, "!="]), random.choice(parts)))
        twins.add(Filter(found))
    twins.check(events)
    for _ in range(count // 2):
        twins.remove(random.randrange(len(twins.ids)))
    twins.check(events)


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("size", [*SIZES, 1000, 1023, 1024])
def test_a_part_of_any_size_is_found_at_every_place(operator: str, size: int) -> None:
    text = "".join(word(i) for i in range(150))
    begins = {0, 1, 7, 8, 9, 63, len(text) // 2, len(text) - size - 1, len(text) - size}
    parts = [text[begin : begin + size] for begin in sorted(begins)]
    parts += [part[:-1] + "z" for part in parts] + ["z" + part[1:] for part in parts]
    others = [f"{word(i)}{text[:size]}"[:size] for i in range(150)]
    texts = [text, text[:size], text[: size - 1], text[1:], text[:-1], ""]
    index = FilterIndex(lacking(operator, part) for part in parts + others)
    for each in texts:
        expected = [i for i, part in enumerate(parts + others) if not HAS[operator](each, part)]
        assert index.match(Notification(x=each)) == expected


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("size", [4095, 4096, 4097, 8191, 8192, 8193, 12_000])
def test_parts_longer_than_what_is_looked_for(operator: str, size: int) -> None:
    random = Random(size)
    text = "".join(random.choices("abcdefgh", k=3 * size))
    parts = [text[:size], text[-size:], text[size : 2 * size]]
    for part in tuple(parts):
        parts += [f"{part[:place]}z{part[place + 1 :]}" for place in (0, size // 2, size - 1)]
    parts = [*(f"{i}{text[:size]}"[:size] for i in range(1_000)), *parts]  # first enough to make marks worth it
    index = FilterIndex((lacking(operator, part) for part in parts), limits=Limits(literal_bytes=size))
    for each in (text, text[:size], text[size:], text[-size:], text[:-1], text[1:]):
        expected = [i for i, part in enumerate(parts) if not HAS[operator](each, part)]
        assert index.match(Notification(x=each)) == expected


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("sizes", [(10, 74), (74, 10), (10, 11, 138, 74), (8, 16, 32, 8)])
def test_the_sizes_of_one_chunk_do_not_hide_those_of_the_next(operator: str, sizes: tuple[int, ...]) -> None:
    text = "".join(word(i) for i in range(30))
    parts = []
    for size in sizes:
        parts += [f"{word(i)}{text}"[:size] for i in range(1_000, 1_200)] + [
            text[:size],
            text[-size:],
            text[5 : 5 + size],
        ]
    index = FilterIndex(lacking(operator, part) for part in parts)
    expected = [i for i, part in enumerate(parts) if not HAS[operator](text, part)]
    assert index.match(Notification(x=text)) == expected


def long_text(number: int, words: int) -> str:
    return "/".join(word(1000 * number + i + 1_000_000) for i in range(words))


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("words", [1, 3, 80])
@pytest.mark.parametrize("shape", ["{}", "{}{}", "https://example.com/{}", "{}.example.com", "q"])
def test_an_event_looks_at_few_of_those_whose_part_it_lacks(operator: str, words: int, shape: str) -> None:
    index = FilterIndex(lacking(operator, shape.format(word(i), word(i)) + str(i)) for i in range(10_000))
    events = [Notification(x=f"https://example.com/{long_text(i, words)}.example.com") for i in range(40)]
    assert all(len(index.match(event)) == 10_000 for event in events)
    assert looked_at_per_event(index, events) < 600


def test_a_few_filters_are_tested_rather_than_all_of_a_long_text_marked() -> None:
    """What an event prepares must be worth it: here it is not, for one filter of each size among many others."""
    filters = [lacking("!*", "p" * (16 + i % 1000)) if i % 500 == 0 else lacking("!=", f"v{i}") for i in range(4_000)]
    twins = Twins(filters)
    before = twins.index.memory_usage()
    twins.index.match(Notification(x="q" * 200_000))
    assert twins.index.memory_usage() - before < 200_000
    twins.check([Notification(x="q" * 200_000), Notification(x="p" * 600), Notification(x="q" * 3 + "p" * 16)])


def twins_in_one_bucket(names: int, filters: Sequence[Filter]) -> Twins:
    """An index that has seen events with all of the names, and so does not divide filters by name."""
    twins = Twins([Filter([Constraint(f"n{n}", "any") for n in range(names)])])
    usual = Notification({f"n{n}": "text" for n in range(names)})
    for _ in range(2_000):  # of which it remembers some
        twins.index.match(usual)
    twins.add_many(filters)
    assert not any(twins.index.stats().partitions.values())
    return twins


@pytest.mark.parametrize("names", [1, 61, 63, 64, 65, 100])
def test_more_outlines_of_parts_than_a_digest_has_room_for(names: int) -> None:
    filters = [lacking(OPERATORS[i % 3], f"part{i}", name=f"n{i % names}") for i in range(400)]
    events = [Notification({f"n{n}": f"part{i}" for n in range(names)}) for i in range(0, 400, 37)]
    twins_in_one_bucket(names, filters).check([*events, Notification(n0="other"), Notification(n0=5)])


@pytest.mark.parametrize("length", [2, 3])
@pytest.mark.parametrize("names", [20, 21, 22, 32, 33, 50])
def test_more_outlines_of_parts_than_filters(length: int, names: int) -> None:
    filters = [
        Filter([Constraint(f"n{i % names}", operator, f"part{i}" * (1 + i % 7)) for operator in OPERATORS[:length]])
        for i in range(400)
    ]
    events = [Notification({f"n{n}": f"part{i}" * 8 for n in range(names)}) for i in range(0, 400, 37)]
    twins_in_one_bucket(names, filters).check(events)


def test_windows_of_all_sizes_at_once() -> None:
    filters = [lacking("!*", word(i) * (1 + i % 120)) for i in range(600)]
    Twins(filters).check([Notification(x=word(i) * 130) for i in range(0, 600, 41)])


def test_marks_are_forgotten_with_their_event() -> None:
    """One workspace serves event after event: what one text had, the next one need not have."""
    index = FilterIndex(lacking(OPERATORS[i % 3], f"-{word(i)}-") for i in range(300))
    for i in range(300):
        assert len(index.match(Notification(x=f"-{word(i)}-"))) == 299
        assert len(index.match(Notification(x="nothing of the kind"))) == 300


def test_what_an_event_prepares_counts_as_memory() -> None:
    index = FilterIndex(lacking("!*", f"{word(i)}{word(i)}") for i in range(300))
    before = index.memory_usage()
    index.match(Notification(x="a" * 2_000))
    after = index.memory_usage()
    assert after - before > 8 * 2_000  # a number for each window, beside the marks
    for _ in range(50):
        index.match(Notification(x="a" * 2_000))
    assert index.memory_usage() == after
