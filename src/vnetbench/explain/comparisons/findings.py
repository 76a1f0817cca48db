"""All that is said between treatments and between trials, most important first."""

from __future__ import annotations

from vnetbench.estimate.summary import CampaignSummary
from vnetbench.explain.comparisons import best, factors, instability, knee, surprises
from vnetbench.explain.model import Finding


def between(summary: CampaignSummary) -> tuple[Finding, ...]:
    """The findings of every module here; a pure function of the campaign."""
    return (
        *best.findings(summary),
        *factors.findings(summary),
        *knee.findings(summary),
        *surprises.findings(summary),
        *instability.findings(summary),
    )
