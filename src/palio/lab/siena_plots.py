"""What is drawn of the studies of the wide-area event service, in the form of the papers' figures.

As there, most have the number of parties on a logarithmic x axis and a linear y axis, and there is one for each number
of objects. Where numbers of objects are compared, y is logarithmic, as they differ by orders of magnitude.
"""

from __future__ import annotations

from palio.lab.siena_claims import SITES
from palio.lab.study import WORST_SITE, Curve, Plot

_OBJECTS = (1, 10, 100, 1_000)
_LABELS = {
    "ce": "ce: centralized",
    "hs": "hs: hierarchical",
    "as": "as: peers, subscriptions",
    "aa": "aa: peers, advertisements",
}


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _architectures(*names: str) -> tuple[Curve, ...]:
    styles = list(_LABELS)
    return tuple(Curve(_LABELS[name], styles.index(name), {"architecture": name}) for name in names)


_ALL = _architectures("ce", "hs", "as", "aa")
_DISTRIBUTED = _architectures("hs", "as", "aa")
_TWO = _architectures("hs", "as")


def _for_each_number_of_objects(plot: Plot, originals: dict[int, str]) -> tuple[Plot, ...]:
    """The same chart for each; originals are those of the thesis, by number of objects, before the others."""
    return tuple(
        plot._replace(
            name=f"{plot.name}-{objects}",
            title=f"{plot.title}, {_count(objects, 'object')}",
            original="; ".join(filter(None, (originals.get(objects, ""), plot.original))),
            where={**plot.where, "objects": objects},
        )
        for objects in _OBJECTS
    )


def _by_objects(plot: Plot, originals: dict[str, str]) -> tuple[Plot, ...]:
    """A chart for each architecture, with a line for each number of objects."""
    curves = tuple(
        Curve(_count(objects, "object"), style, {"objects": objects}) for style, objects in enumerate(_OBJECTS)
    )
    return tuple(
        plot._replace(
            name=f"{plot.name}-{architecture}",
            title=f"{plot.title}, {_LABELS[architecture]}",
            original=original,
            curves=curves,
            where={"architecture": architecture},
            y_scale="log",
        )
        for architecture, original in originals.items()
    )


# -- total cost --------------------------------------------------------------------------------------------------------

_TOTAL = Plot("total-cost", "Total cost", "", "siena", "cost", _DISTRIBUTED, "total cost")

TOTAL_COST_PLOTS = (
    _TOTAL._replace(
        name="total-cost-centralized",
        title="Total cost with the centralized server, 100 objects",
        original="thesis, figure 5.6",
        curves=_ALL,
        where={"objects": 100},
    ),
    *_for_each_number_of_objects(
        _TOTAL._replace(original="journal paper, comparison of total costs"),
        {
            1: "thesis, figure 5.7",
            10: "thesis, figure 5.7",
            100: "thesis, figure 5.8",
            1_000: "thesis, figure 5.8",
        },
    ),
    *_for_each_number_of_objects(
        _TOTAL._replace(
            name="total-cost-sparse",
            title="Total cost below saturation",
            original="journal paper, comparison of total costs below the saturation point",
            x_scale="linear",
            most=SITES,
        ),
        {},
    ),
    *_by_objects(_TOTAL, {"ce": "thesis, figure 5.10", "hs": "thesis, figure 5.10", "as": "thesis, figure 5.11"}),
    *_by_objects(_TOTAL._replace(bars="deviation"), {"aa": "thesis, figures 5.9 and 5.11"}),
    Plot(
        name="total-cost-publications",
        title="Total cost of aa by publications an advertisement, 10 objects",
        original="",
        experiment="siena-pub-adv",
        metric="cost",
        curves=tuple(
            Curve(f"{count} publications", style, {"publications": count}) for style, count in enumerate((5, 20, 100))
        ),
        y_label="total cost",
        where={"architecture": "aa", "objects": 10},
        bars="deviation",
    ),
)

# -- load of sites -----------------------------------------------------------------------------------------------------

SITE_LOAD_PLOTS = (
    *_for_each_number_of_objects(
        Plot(
            name="site-deviation",
            title="Deviation of the cost of sites",
            original="",
            experiment="siena",
            metric="site_variation",
            curves=_TWO,
            y_label="standard deviation / mean",
        ),
        {
            1: "thesis, figure 5.12",
            10: "thesis, figure 5.12",
            100: "thesis, figure 5.13",
            1_000: "thesis, figure 5.13",
        },
    ),
    *_for_each_number_of_objects(
        Plot(
            name="worst-site",
            title="Cost of the worst site",
            original="journal paper, comparison of worst-case site costs",
            experiment="siena",
            metric=WORST_SITE,
            curves=_TWO,
            y_label="largest mean cost of a site",
        ),
        {},
    ),
)

# -- cost of a service -------------------------------------------------------------------------------------------------

_SERVICE = Plot("service-cost", "Cost of a request", "", "siena", "service_cost", _ALL, "cost / request")

SERVICE_COST_PLOTS = (
    *_for_each_number_of_objects(
        _SERVICE._replace(original="journal paper, comparison of service costs; earlier paper, figure 11"),
        {
            1: "thesis, figure 5.16",
            10: "thesis, figure 5.16",
            100: "thesis, figure 5.17",
            1_000: "thesis, figure 5.17",
        },
    ),
    *_for_each_number_of_objects(
        _SERVICE._replace(
            name="service-cost-distributed",
            title="Cost of a request without the centralized server",
            curves=_DISTRIBUTED,
        ),
        {},
    ),
    *_by_objects(
        _SERVICE,
        {
            "ce": "thesis, figure 5.14",
            "hs": "thesis, figure 5.14",
            "as": "thesis, figure 5.15",
            "aa": "thesis, figure 5.15",
        },
    ),
)

# -- subscriptions and notifications -----------------------------------------------------------------------------------

SUBSCRIPTION_COST_PLOTS = (
    Plot(
        name="subscription-cost",
        title="Cost of a subscription, 1 object",
        original="journal paper, comparison of subscription costs",
        experiment="siena",
        metric="subscription_cost",
        curves=_TWO,
        y_label="cost / subscription",
        where={"objects": 1},
    ),
    *(
        Plot(
            name=f"subscription-cost-behaviour-{architecture}",
            title=f"Cost of a subscription of {architecture} by notifications a subscription, 1 object",
            original="",
            experiment="siena-notif-sub",
            metric="subscription_cost",
            curves=tuple(
                Curve(f"{count} notifications", style, {"notifications": count})
                for style, count in enumerate((5, 15, 45))
            ),
            y_label="cost / subscription",
            where={"architecture": architecture},
        )
        for architecture in ("hs", "as")
    ),
)

_NOTIFICATION = Plot(
    name="notification-cost",
    title="Cost of a publication, 1 object",
    original="journal paper, comparison of notification costs",
    experiment="siena",
    metric="notification_cost",
    curves=_TWO,
    y_label="cost / publication",
    where={"objects": 1},
)
_DEGENERATE = _NOTIFICATION._replace(
    original="journal paper, comparison of notification costs in degenerate cases",
    where={},
    x="publications",
    x_label="publications",
)

NOTIFICATION_COST_PLOTS = (
    _NOTIFICATION,
    _DEGENERATE._replace(
        name="notification-cost-no-party",
        title="Cost of a publication without parties",
        experiment="siena-no-party",
    ),
    _DEGENERATE._replace(
        name="notification-cost-one-notification",
        title="Cost of a publication, one party that takes one notification",
        experiment="siena-one-notification",
    ),
)

# -- delays ------------------------------------------------------------------------------------------------------------

DELAY_PLOTS = _for_each_number_of_objects(
    Plot(
        name="publication-delay",
        title="Delay of a publication",
        original="",
        experiment="siena",
        metric="publication_delay",
        curves=_ALL,
        y_label="time to the last arrival",
    ),
    {},
)
"""The papers define delays and draw none."""
