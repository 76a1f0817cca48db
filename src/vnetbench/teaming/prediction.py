"""What a policy predicts for one direction of a flow."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Spread = Literal["one", "packets in turn", "copy on each"]


@dataclass(frozen=True)
class Prediction:
    """The uplink that carries a flow, or what it depends on.

    Attributes:
        uplink: Index of the uplink; None if it is not certain.
        candidates: Indices of the uplinks that may carry the flow, sorted.
        is_ambiguous: Whether published descriptions of the policy name different uplinks.
        depends_on: What decides if `uplink` is None; None otherwise.
        assumption: What has to hold for `uplink`; None if nothing beyond the policy itself.
        group: Flows whose `uplink` is None share it if their `group` is the same; None if nothing is known.
        spread: Whether one uplink carries the whole flow, each of `candidates` carries its packets in turn,
            or each of `candidates` carries a copy.
        uplink_by_formula: Uplink that each published formula gives, in a fixed order, if they differ. One of
            them holds for all flows.
    """

    uplink: int | None
    candidates: tuple[int, ...]
    is_ambiguous: bool = False
    depends_on: str | None = None
    assumption: str | None = None
    group: str | None = None
    spread: Spread = "one"
    uplink_by_formula: tuple[int, ...] = ()


def certain(uplink: int, assumption: str | None = None) -> Prediction:
    """Return the prediction of one uplink."""
    return Prediction(uplink, (uplink,), assumption=assumption)


def undecided(candidates: Iterable[int], depends_on: str, group: str | None = None) -> Prediction:
    """Return a prediction without an uplink; `depends_on` names what decides."""
    return Prediction(None, tuple(sorted(set(candidates))), depends_on=depends_on, group=group)
