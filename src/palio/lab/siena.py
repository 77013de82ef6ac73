"""The studies of the wide-area event service: what the thesis and the journal paper say about four architectures.

All of them are about one network of a hundred sites with a server each (but for the centralized one), and events of one
class. *Saturated* is a network with more than one party a site, as in the papers. The predicates were written before
any of these experiments ran.
"""

from __future__ import annotations

from palio.lab import siena_claims as claims
from palio.lab.siena_claims import ARCHITECTURES, SITES
from palio.lab.study import Claim, Experiment, Setting, Study

OBJECTS = (1, 10, 100, 1_000)
PARTIES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)
QUICK_OBJECTS = (1, 10, 100)
QUICK_PARTIES = (1, 10, 100, 1_000, 10_000)


def experiments(*, quick: bool) -> tuple[Experiment, ...]:
    """All runs of these studies."""
    objects, parties = (QUICK_OBJECTS, QUICK_PARTIES) if quick else (OBJECTS, PARTIES)
    runs = 3 if quick else 10
    grid = [Setting(each, some, many) for each in ARCHITECTURES for some in objects for many in parties]
    low = [many for many in parties if many < SITES]
    rarer = [
        Setting(each, 10, many, publications=count, object_cycles=200 // count)
        for each in ("as", "aa")
        for many in low
        for count in (5, 20, 100)
    ]
    behaviour = [
        Setting(each, 1, many, notifications=count)
        for each in ("hs", "as")
        for many in parties
        for count in (5, 15, 45)
    ]
    without = [
        Setting(each, 1, 0, publications=count, object_cycles=1) for each in ("hs", "as") for count in (10, 100, 1_000)
    ]
    with_one = [
        Setting(each, 1, 1, publications=count, notifications=1, object_cycles=1, party_cycles=1)
        for each in ("hs", "as")
        for count in (10, 100, 1_000)
    ]
    return (
        Experiment("siena", tuple(grid), runs),
        Experiment("siena-pub-adv", tuple(rarer), runs),
        Experiment("siena-notif-sub", tuple(behaviour), runs),
        Experiment("siena-no-party", tuple(without), runs),
        Experiment("siena-one-notification", tuple(with_one), runs),
    )


STUDIES = (
    Study(
        "siena-total-cost",
        "What all messages cost, over parties",
        ("siena", "siena-pub-adv"),
        (
            Claim(
                "explosive-centralized",
                "explosive growth of ce, while the behaviour of the others is compressed",
                claims.explosive,
            ),
            Claim(
                "flat-after-saturation",
                "hs, as and aa are flat once the network is saturated",
                claims.flat,
            ),
            Claim(
                "sub-linear-before",
                "hs, as and aa grow less than linearly before saturation",
                claims.sub_linear,
            ),
            Claim(
                "hierarchy-dearer",
                "hs is always dearer than as, except with one object",
                claims.dearer_hierarchy,
            ),
            Claim(
                "hierarchy-dearer-with-objects",
                "the factor between hs and as grows with the number of objects",
                claims.growing_factor,
            ),
            Claim(
                "advertising-unstable",
                "aa is irregular at low density, the more so the more objects there are",
                claims.unstable,
            ),
            Claim(
                "advertising-calmer",
                "that is because of unadvertising",
                claims.calmer,
            ),
            Claim(
                "advertising-close",
                "past saturation aa costs what as does",
                claims.close,
            ),
        ),
    ),
    Study(
        "siena-site-load",
        "How the cost is spread over sites",
        ("siena",),
        (
            Claim(
                "hierarchy-even-at-few",
                "with few objects and parties hs spreads the cost better",
                claims.even_at_few,
            ),
            Claim(
                "peers-even-at-many",
                "with many objects and parties as spreads the cost better",
                claims.uneven_at_many,
            ),
            Claim(
                "worst-site",
                "the worst site is better off with hs at a low density of objects, worse off at a high one",
                claims.worst,
            ),
        ),
    ),
    Study(
        "siena-service-cost",
        "What a request costs",
        ("siena",),
        (
            Claim(
                "amortized-past-saturation",
                "past saturation the cost of a service falls with parties, that of ce least of all",
                claims.amortized,
            ),
            Claim(
                "centralized-dearest",
                "ce is the dearest in essentially all scenarios",
                claims.dearest,
            ),
            Claim(
                "peers-good-at-many-objects",
                "with 1,000 objects as is good whatever the parties",
                claims.good_peers,
            ),
            Claim(
                "hierarchy-advantage",
                "the advantage of hs at few objects and parties vanishes, and returns past saturation",
                claims.returning_advantage,
            ),
        ),
    ),
    Study(
        "siena-subscription-cost",
        "What a subscription costs, with one object",
        ("siena", "siena-notif-sub"),
        (
            Claim(
                "subscriptions-dear-for-peers",
                "at low density a subscription costs as about N, and hs about log N",
                claims.dear_subscriptions,
            ),
            Claim(
                "subscriptions-amortized",
                "both amortize subscriptions as parties grow",
                claims.amortized_subscriptions,
            ),
            Claim(
                "subscriptions-insensitive",
                "that does not depend on how long parties stay",
                claims.insensitive,
            ),
        ),
    ),
    Study(
        "siena-notification-cost",
        "What a publication costs, with one object",
        ("siena", "siena-no-party", "siena-one-notification"),
        (
            Claim(
                "constant-difference",
                "the difference between hs and as does not depend on the number of parties",
                claims.constant_difference,
            ),
            Claim(
                "without-parties",
                "without parties a publication costs hs always the same, and as nothing",
                claims.without_parties,
            ),
            Claim(
                "one-notification",
                "with one party that takes one notification, the cost of a publication goes to zero for as",
                claims.one_notification,
            ),
        ),
    ),
    Study("siena-delay", "How long it takes until a publication has arrived everywhere", ("siena",), ()),
)
"""Every study of the wide-area event service; of delays the papers claim nothing."""
