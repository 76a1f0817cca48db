"""Where the time of a stream or request goes in each treatment: the mean over its trials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from vnetbench.estimate.evidence.time_accounting.account import TimeShares
from vnetbench.estimate.evidence.time_accounting.metrics import time_shares
from vnetbench.estimate.evidence.time_accounting.time_uses import TIME_USE_BY_NAME
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.study.workloads import WORKLOADS

MIN_NAMED_SHARE = 0.02
"""Charts and texts name a use of time from this share on. Smaller uses are folded into `other`."""


@dataclass(frozen=True)
class TreatmentTimeShares:
    """A treatment with the mean of its trials' time shares, which add up to 1."""

    treatment: TreatmentSummary
    shares: TimeShares


def treatment_time_shares(treatment: TreatmentSummary) -> TimeShares:
    """Return the mean share of each use of time over the trials; empty without time evidence."""
    trials = [shares for point in treatment.points if (shares := time_shares(point.evidence))]
    if not trials:
        return {}
    means = {name: fmean(shares.get(name, 0.0) for shares in trials) for name in TIME_USE_BY_NAME}
    total = sum(means.values())
    return {name: mean / total for name, mean in means.items()} if total > 0 else {}


def campaign_time_shares(summary: CampaignSummary) -> list[TreatmentTimeShares]:
    """Return the treatments that have time evidence, in the order of the summary."""
    return [
        TreatmentTimeShares(treatment, shares)
        for treatment in summary.treatments
        if (shares := treatment_time_shares(treatment))
    ]


def named_time_uses(all_shares: Sequence[TimeShares]) -> list[str]:
    """Return the uses of time that reach MIN_NAMED_SHARE in at least one treatment, in chart order."""
    return [
        name
        for name in TIME_USE_BY_NAME
        if any(shares.get(name, 0.0) >= MIN_NAMED_SHARE for shares in all_shares)
    ]


def request_or_stream_noun(summary: CampaignSummary) -> str:
    """Return what the time belongs to: `request` or `stream`."""
    workload = WORKLOADS[summary.workload]
    return "request" if workload.has_requests and not workload.has_requests_and_transfers else "stream"
