"""Many filters at once: which of them cover one another."""

from palio.matching.covering import Change, CoveringOrder

__all__ = ["Change", "CoveringOrder"]
