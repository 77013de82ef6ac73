"""The studies of the wide-area event service: what the thesis and the journal paper say about four architectures.

All of them are about one network of a hundred sites with a server each (but for the centralized one), and events of one
class. *Saturated* is a network with more than one party a site, as in the papers. The predicates were written before
any of these experiments ran.
"""

from __future__ import annotations

from palio.lab import siena_claims as claims
from palio.lab import siena_plots as plots
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


_LEFT_OPEN = (
    (
        "The network: the papers name the generator (transit-stub, 100 sites), but print neither its parameters nor "
        "the graph. Ours is drawn once, from the parameters above, and is the same in all runs."
    ),
    (
        "What a link costs: one paper takes the inverse of its bandwidth, the others do not say. Here it is the "
        "distance of its ends, rounded, 1 at least; the latency is the same number. Only ratios and trends mean "
        "anything."
    ),
    (
        "The tree of the acyclic and hierarchical architectures: here the minimal spanning tree of the network, and "
        "the root of the hierarchy is its first site, one of those that carry the traffic of others."
    ),
    (
        "Where the centralized server is: at a random site, another one in each repetition; its messages take the "
        "cheapest ways."
    ),
    (
        "What stays within a site costs nothing and takes no time, as the papers say; so a party and its own server "
        "talk for free, but for the centralized server."
    ),
    (
        "The time between publications: the thesis draws it uniformly for all objects of a site, as its scenario file "
        "shows, and the journal paper from a Poisson distribution. Here it is drawn once for all objects of a site, "
        "and stays. As much time passes after advertising and unadvertising."
    ),
    "When objects begin: all at once, before the first party subscribes.",
    (
        "Whether settings are compared in the same situations: here they are. Objects and parties of a repetition are "
        "at the same sites in all architectures and settings, as far as there are as many of them."
    ),
    (
        "Notifications that come after a party has unsubscribed: they cost what they cost, and the party does not "
        "count them. It subscribes again at once."
    ),
    (
        "Parties that never get all the notifications they wait for: they stay subscribed, and the run ends when the "
        "last message has arrived."
    ),
    "What servers tell each other to set up and keep their links is not counted.",
    (
        "Error bars: the thesis shows standard deviations in one figure, the journal paper none. Ours are confidence "
        "intervals, where the caption does not say otherwise."
    ),
)
_TOTAL_COST_OPEN = (
    (
        "In figures with a line for each number of objects the thesis scales costs by the largest of a chart. Here "
        "they are not scaled, and the axis is logarithmic."
    ),
    "How many objects the figure of the advertisement forwarding architecture has: here all numbers.",
)
_SITE_LOAD_OPEN = (
    (
        "What a site costs: the messages that it sends or gets; those that only pass do not count. A message within a "
        "site counts once."
    ),
    "The deviation of sites is that of all sites, those without messages included.",
)
_SERVICE_COST_OPEN = (
    "Which requests count: advertising, publishing, unadvertising, subscribing and unsubscribing, each once.",
    "Figures 5.16 and 5.17 of the thesis are called total cost; by its text they show the cost of a request, as here.",
)
_SUBSCRIPTION_COST_OPEN = (
    (
        "What belongs to a subscription: all messages that follow from subscribing. Those that follow from "
        "unsubscribing, subscriptions among them, do not count."
    ),
    "Which parameters of behaviour were varied, and how far: here the notifications a subscription, 5, 15 and 45.",
)
_NOTIFICATION_COST_OPEN = (
    "The mean is over publications, whether anybody gets them or not.",
    "How many publications there are in the degenerate cases: here 10, 100 and 1,000, in one cycle.",
    (
        "When the party of the degenerate case subscribes: after its first delay, so that one publication may come "
        "before."
    ),
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
        plots.TOTAL_COST_PLOTS,
        _LEFT_OPEN + _TOTAL_COST_OPEN,
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
        plots.SITE_LOAD_PLOTS,
        _LEFT_OPEN + _SITE_LOAD_OPEN,
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
        plots.SERVICE_COST_PLOTS,
        _LEFT_OPEN + _SERVICE_COST_OPEN,
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
        plots.SUBSCRIPTION_COST_PLOTS,
        _LEFT_OPEN + _SUBSCRIPTION_COST_OPEN,
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
        plots.NOTIFICATION_COST_PLOTS,
        _LEFT_OPEN + _NOTIFICATION_COST_OPEN,
    ),
    Study(
        "siena-delay",
        "How long it takes until a publication has arrived everywhere",
        ("siena",),
        (),
        plots.DELAY_PLOTS,
        _LEFT_OPEN,
    ),
)
"""Every study of the wide-area event service; of delays the papers claim nothing."""
