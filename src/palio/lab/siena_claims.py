"""How the claims about the wide-area event service are judged: each a predicate on the figures of our runs.

They were written before any of the experiments ran.
"""

from __future__ import annotations

from itertools import pairwise
from statistics import fmean

from palio.lab.estimates import Estimate, estimate, slope, variation
from palio.lab.study import Results, Verdict

SITES = 100
ARCHITECTURES = ("ce", "hs", "as", "aa")
DISTRIBUTED = ("hs", "as", "aa")
_FEW = 10
"""Parties: one for ten sites at most."""
_ALMOST_ALL = 0.95

# -- what claims are made of -------------------------------------------------------------------------------------------


def _saturated(results: Results) -> list[int]:
    return [many for many in results.settings("siena", "parties") if many > SITES]


def _sparse(results: Results) -> list[int]:
    return [many for many in results.settings("siena", "parties") if many < SITES]


def _slopes(results: Results, architecture: str, objects: int, parties: list[int]) -> Estimate:
    curves = results.curves("siena", "cost", "parties", parties, architecture=architecture, objects=objects)
    return estimate(slope(curve) for curve in curves)


def _ratio(results: Results, metric: str, one: str, other: str, **where: object) -> Estimate:
    """Of two architectures in the same situations."""
    pairs = zip(
        results.values("siena", metric, architecture=one, **where),
        results.values("siena", metric, architecture=other, **where),
        strict=True,
    )
    return estimate(mine / theirs for mine, theirs in pairs if theirs)


def _objects(results: Results, least: int = 1) -> list[int]:
    return [some for some in results.settings("siena", "objects") if some >= least]


def _all_of(cases: list[tuple[str, Estimate, bool]]) -> Verdict:
    """All have to be right; the figures of those that are not come first."""
    wrong = [case for case in cases if not case[2]]
    shown = wrong or cases
    text = "; ".join(f"{name}: {figure}" for name, figure, _ in shown[:6])
    if len(shown) > 6:
        text += f"; and {len(shown) - 6} more"
    return Verdict(not wrong, f"{len(cases) - len(wrong)} of {len(cases)}: {text}")


# -- total cost --------------------------------------------------------------------------------------------------------


def explosive(results: Results) -> Verdict:
    """Past saturation the log-log slope of cost over parties is 0.9 at least for ce, 0.1 at most for others."""
    cases = []
    for objects in _objects(results):
        for architecture in ARCHITECTURES:
            found = _slopes(results, architecture, objects, _saturated(results))
            is_right = found.low >= 0.9 if architecture == "ce" else found.high <= 0.1
            cases.append((f"{architecture}, {objects} objects", found, is_right))
    return _all_of(cases)


def flat(results: Results) -> Verdict:
    """Cost(10,000 parties) / cost(1,000 parties) is 1.1 at most."""
    cases = []
    for objects in _objects(results):
        for architecture in DISTRIBUTED:
            where = {"architecture": architecture, "objects": objects}
            curves = results.curves("siena", "cost", "parties", [1_000, 10_000], **where)
            found = estimate(curve[1][1] / curve[0][1] for curve in curves)
            cases.append((f"{architecture}, {objects} objects", found, found.high <= 1.1))
    return _all_of(cases)


def sub_linear(results: Results) -> Verdict:
    """The log-log slope up to 100 parties is below 1."""
    parties = [*_sparse(results), SITES]
    cases = []
    for objects in _objects(results):
        for architecture in DISTRIBUTED:
            found = _slopes(results, architecture, objects, parties)
            cases.append((f"{architecture}, {objects} objects", found, found.high < 1))
    return _all_of(cases)


def dearer_hierarchy(results: Results) -> Verdict:
    """Cost(hs) / cost(as) is above 1 for 10 objects and more, whatever the parties."""
    cases = []
    for objects in _objects(results, 10):
        for parties in results.settings("siena", "parties"):
            found = _ratio(results, "cost", "hs", "as", objects=objects, parties=parties)
            cases.append((f"{objects} objects, {parties} parties", found, found.low > 1))
    return _all_of(cases)


def _mean_ratio(results: Results, objects: int) -> Estimate:
    """Of hs and as, over all numbers of parties."""
    columns = []
    for parties in results.settings("siena", "parties"):
        where = {"objects": objects, "parties": parties}
        both = (results.values("siena", "cost", architecture=each, **where) for each in ("hs", "as"))
        columns.append([mine / theirs for mine, theirs in zip(*both, strict=True)])
    return estimate(fmean(row) for row in zip(*columns, strict=True))


def growing_factor(results: Results) -> Verdict:
    """The mean of cost(hs) / cost(as) over parties grows from 10 objects on."""
    found = [(objects, _mean_ratio(results, objects)) for objects in _objects(results)]
    counted = [each for each in found if each[0] >= 10]
    grows = all(before[1].mean < after[1].mean for before, after in pairwise(counted))
    return Verdict(grows, "; ".join(f"{objects} objects: {each}" for objects, each in found))


def _variations(results: Results, experiment: str, architecture: str, **where: object) -> float:
    """The mean coefficient of variation of the total cost at low density."""
    parties = [many for many in results.settings(experiment, "parties") if many < SITES]
    return fmean(
        variation(results.values(experiment, "cost", architecture=architecture, parties=many, **where))
        for many in parties
    )


def unstable(results: Results) -> Verdict:
    """Below 100 parties the mean coefficient of variation of aa is 3 times that of as at least, and the ratio
    grows with objects.
    """
    ratios = []
    for objects in _objects(results, 10):
        mine, theirs = (_variations(results, "siena", each, objects=objects) for each in ("aa", "as"))
        ratios.append((objects, mine / theirs))
    is_right = all(ratio >= 3 for _, ratio in ratios) and all(one[1] < other[1] for one, other in pairwise(ratios))
    return Verdict(is_right, "; ".join(f"{objects} objects: {ratio:.2f}" for objects, ratio in ratios))


def calmer(results: Results) -> Verdict:
    """With 10 objects aa's coefficient of variation falls when there are more publications an advertisement."""
    experiment = "siena-pub-adv"
    counts = results.settings(experiment, "publications")
    found = [(count, _variations(results, experiment, "aa", publications=count)) for count in counts]
    return Verdict(
        all(before[1] > after[1] for before, after in pairwise(found)),
        "; ".join(f"{count} publications an advertisement: {each:.3f}" for count, each in found),
    )


def close(results: Results) -> Verdict:
    """Cost(aa) / cost(as) is between 0.9 and 1.1 for more than 100 parties."""
    cases = []
    for objects in _objects(results):
        for parties in _saturated(results):
            found = _ratio(results, "cost", "aa", "as", objects=objects, parties=parties)
            cases.append((f"{objects} objects, {parties} parties", found, found.low >= 0.9 and found.high <= 1.1))
    return _all_of(cases)


# -- load of sites -----------------------------------------------------------------------------------------------------


def even_at_few(results: Results) -> Verdict:
    """With 1 object and 10 parties at most, the relative deviation of the cost of sites is lower for hs."""
    cases = []
    for parties in [many for many in results.settings("siena", "parties") if many <= _FEW]:
        found = _ratio(results, "site_variation", "hs", "as", objects=1, parties=parties)
        cases.append((f"1 object, {parties} parties", found, found.high < 1))
    return _all_of(cases)


def uneven_at_many(results: Results) -> Verdict:
    """With 100 objects and more, past saturation, it is higher for hs than for as."""
    cases = []
    for objects in _objects(results, 100):
        for parties in _saturated(results):
            found = _ratio(results, "site_variation", "hs", "as", objects=objects, parties=parties)
            cases.append((f"{objects} objects, {parties} parties", found, found.low > 1))
    return _all_of(cases)


def _worst_site(results: Results, architecture: str, objects: int, parties: int) -> float:
    """The largest mean over runs."""
    return fmean(results.worst_site("siena", architecture=architecture, objects=objects, parties=parties))


def worst(results: Results) -> Verdict:
    """The largest mean cost of a site: hs / as is below 1 with 1 object and above 1 with the most objects."""
    many = max(_objects(results))
    ratios = [
        (objects, parties, _worst_site(results, "hs", objects, parties) / _worst_site(results, "as", objects, parties))
        for objects in (1, many)
        for parties in results.settings("siena", "parties")
    ]
    is_right = all(ratio < 1 if objects == 1 else ratio > 1 for objects, _, ratio in ratios)
    return Verdict(is_right, "; ".join(f"{o} objects, {p} parties: {ratio:.2f}" for o, p, ratio in ratios))


# -- cost of a service -------------------------------------------------------------------------------------------------


def _fall(results: Results, architecture: str, objects: int) -> Estimate:
    """By which exponent the cost of a service changes past saturation."""
    where = {"architecture": architecture, "objects": objects}
    curves = results.curves("siena", "service_cost", "parties", _saturated(results), **where)
    return estimate(slope(curve) for curve in curves)


def amortized(results: Results) -> Verdict:
    """The log-log slope of cost per request over parties is negative for hs, as, aa, and largest for ce."""
    cases = []
    for objects in _objects(results):
        falls = {each: _fall(results, each, objects) for each in ARCHITECTURES}
        cases += [(f"{each}, {objects} objects", falls[each], falls[each].high < 0) for each in DISTRIBUTED]
        least = max(falls, key=lambda each: falls[each].mean)
        cases.append((f"ce, {objects} objects", falls["ce"], least == "ce"))
    return _all_of(cases)


def dearest(results: Results) -> Verdict:
    """At 95 % of all points at least the cost per request is highest for ce."""
    points = [(objects, parties) for objects in _objects(results) for parties in results.settings("siena", "parties")]
    dearest = 0
    for objects, parties in points:
        costs = {
            each: results.mean("siena", "service_cost", architecture=each, objects=objects, parties=parties).mean
            for each in ARCHITECTURES
        }
        dearest += max(costs, key=lambda each: costs[each]) == "ce"
    share = dearest / len(points)
    return Verdict(share >= _ALMOST_ALL, f"{dearest} of {len(points)}: {share:.2f}")


def good_peers(results: Results) -> Verdict:
    """The cost per request of as is at most 1.1 times that of the best of hs, as, aa."""
    cases = []
    for parties in results.settings("siena", "parties"):
        results.select("siena", objects=1_000)
        best = min(
            DISTRIBUTED,
            key=lambda each: (
                results.mean("siena", "service_cost", architecture=each, objects=1_000, parties=parties).mean
            ),
        )
        found = _ratio(results, "service_cost", "as", best, objects=1_000, parties=parties)
        cases.append((f"1000 objects, {parties} parties", found, found.mean <= 1.1))
    return _all_of(cases)


def returning_advantage(results: Results) -> Verdict:
    """With 1 object hs / as is below 1 up to 10 parties, 1 or more somewhere up to 100, and below 1 past that."""
    ratios = [
        (parties, _ratio(results, "service_cost", "hs", "as", objects=1, parties=parties))
        for parties in results.settings("siena", "parties")
    ]
    few = all(ratio.mean < 1 for parties, ratio in ratios if parties <= _FEW)
    between = any(ratio.mean >= 1 for parties, ratio in ratios if _FEW < parties <= SITES)
    past = all(ratio.mean < 1 for parties, ratio in ratios if parties > SITES)
    return Verdict(few and between and past, "; ".join(f"{parties} parties: {ratio}" for parties, ratio in ratios))


# -- subscriptions and notifications -----------------------------------------------------------------------------------


def dear_subscriptions(results: Results) -> Verdict:
    """Up to 10 parties the cost of a subscription is at least twice as high for as as for hs."""
    cases = []
    for parties in [many for many in results.settings("siena", "parties") if many <= _FEW]:
        found = _ratio(results, "subscription_cost", "as", "hs", objects=1, parties=parties)
        cases.append((f"{parties} parties", found, found.low >= 2))
    return _all_of(cases)


def amortized_subscriptions(results: Results) -> Verdict:
    """With the most parties a subscription costs a tenth at most of what it costs with one."""
    parties = results.settings("siena", "parties")
    cases = []
    for architecture in ("hs", "as"):
        where = {"architecture": architecture, "objects": 1}
        curves = results.curves("siena", "subscription_cost", "parties", [min(parties), max(parties)], **where)
        found = estimate(curve[1][1] / curve[0][1] for curve in curves if curve[0][1])
        cases.append((architecture, found, found.high <= 0.1))
    return _all_of(cases)


def insensitive(results: Results) -> Verdict:
    """With 5, 15 and 45 notifications a subscription the cost of one differs by a tenth of the mean at most."""
    experiment = "siena-notif-sub"
    cases = []
    for architecture in ("hs", "as"):
        for parties in results.settings(experiment, "parties"):
            where = {"architecture": architecture, "parties": parties}
            means = [
                results.mean(experiment, "subscription_cost", notifications=count, **where).mean
                for count in results.settings(experiment, "notifications")
            ]
            spread = (max(means) - min(means)) / fmean(means) if fmean(means) else 0.0
            cases.append((f"{architecture}, {parties} parties", Estimate(spread, spread, spread), spread <= 0.1))
    return _all_of(cases)


def constant_difference(results: Results) -> Verdict:
    """It is within 20 % of its mean at all numbers of parties."""
    differences = []
    for parties in results.settings("siena", "parties"):
        where = {"objects": 1, "parties": parties}
        both = [results.values("siena", "notification_cost", architecture=each, **where) for each in ("hs", "as")]
        differences.append((parties, estimate(mine - theirs for mine, theirs in zip(*both, strict=True))))
    middle = fmean(each.mean for _, each in differences)
    is_right = all(abs(each.mean - middle) <= 0.2 * abs(middle) for _, each in differences)
    return Verdict(is_right, "; ".join(f"{parties} parties: {each}" for parties, each in differences))


def without_parties(results: Results) -> Verdict:
    """Hs: within 1 % for 10, 100, 1,000 publications and above zero; as: zero."""
    experiment = "siena-no-party"
    means = {
        (architecture, count): results.mean(
            experiment, "notification_cost", architecture=architecture, publications=count
        ).mean
        for architecture in ("hs", "as")
        for count in results.settings(experiment, "publications")
    }
    hierarchy = [mean for (architecture, _), mean in means.items() if architecture == "hs"]
    is_constant = max(hierarchy) - min(hierarchy) <= 0.01 * fmean(hierarchy)
    is_free = all(mean == 0 for (architecture, _), mean in means.items() if architecture == "as")
    return Verdict(
        is_constant and is_free and min(hierarchy) > 0,
        "; ".join(f"{architecture}, {count} publications: {mean:.2f}" for (architecture, count), mean in means.items()),
    )


def one_notification(results: Results) -> Verdict:
    """With 1,000 publications the mean cost of one is 2 % at most of that with 10."""
    experiment = "siena-one-notification"
    counts = results.settings(experiment, "publications")
    curves = results.curves(experiment, "notification_cost", "publications", counts, architecture="as")
    found = estimate(curve[-1][1] / curve[0][1] for curve in curves if curve[0][1])
    return Verdict(found.high <= 0.02, f"{counts[-1]} publications against {counts[0]}: {found}")
