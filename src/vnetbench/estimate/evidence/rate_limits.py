"""Evidence of rate limits that a firewall sets: how close the load comes to one of them.

A firewall does not count what such a rule drops. But a load that it limits runs at the rule's rate, and most
rules of this kind, such as those for ICMP or for logins, have another rate.
"""

from __future__ import annotations

from collections.abc import Iterator

from vnetbench.estimate.evidence.aggregation import (
    EvidenceValues,
    counter_rate_per_s,
    percent,
    sum_known_values,
    to_number,
)
from vnetbench.estimate.evidence.metric import EvidenceMetric
from vnetbench.estimate.evidence.shapers import endpoints_on_path, path_state
from vnetbench.estimate.evidence.trial_data import TrialData
from vnetbench.results.records import mapping_or_empty

_COUNTER_BY_UNIT = {"bytes": "rx_bytes", "packets": "rx_packets"}
_MAX_PLAUSIBLE_RATE_SHARE_PERCENT = 150.0
"""A load that a rate limits stays below it, except for a burst at its start."""

RATE_LIMIT_EVIDENCE_METRICS = (
    EvidenceMetric(
        "rate_limit_share_percent",
        "% of its rate",
        "traffic as a share of a firewall's rate limit",
        "traffic that arrives at the receivers, as a share of the rate of a firewall rule that drops the "
        "excess, of the rule with the largest share. A rule does not count if the share is above 150 %, "
        "because it cannot limit this traffic. 0 if no rule counts",
        ("path_state.rate_limits", "rx_bytes", "rx_packets"),
    ),
)


def rate_limit_evidence(data: TrialData) -> EvidenceValues:
    """Return the values of RATE_LIMIT_EVIDENCE_METRICS."""
    states = [path_state(each) for each in endpoints_on_path(data.steady_part)]
    lists = [state["rate_limits"] for state in states if isinstance(state.get("rate_limits"), list)]
    if not lists:
        return {}
    limits = [mapping_or_empty(each) for limits in lists for each in limits]
    shares = [
        _share_of_limit_percent(data, str(limit.get("unit")), to_number(limit.get("per_s")))
        for limit in limits
    ]
    known = [share for share in shares if share is not None]
    if limits and not known:
        return {}
    possible = (share for share in known if share <= _MAX_PLAUSIBLE_RATE_SHARE_PERCENT)
    return {"rate_limit_share_percent": max((0.0, *possible))}


def _share_of_limit_percent(data: TrialData, unit: str, limit_per_s: float | None) -> float | None:
    counter = _COUNTER_BY_UNIT.get(unit)
    if counter is None:
        return None
    return percent(sum_known_values(*_receive_rates(data, counter)), limit_per_s)


def _receive_rates(data: TrialData, counter: str) -> Iterator[float | None]:
    for _, samples in data.steady_part.receivers:
        yield counter_rate_per_s(samples, counter)
