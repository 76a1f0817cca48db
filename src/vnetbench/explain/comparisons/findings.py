"""Findings from comparisons of treatments and of trials, most important first."""

from __future__ import annotations

from vnetbench.estimate.summary import CampaignSummary
from vnetbench.explain.comparisons import best, factors, instability, knee, surprises
from vnetbench.explain.model import Finding


def comparison_findings(summary: CampaignSummary) -> tuple[Finding, ...]:
    """Return the findings of all modules in this package. This is a pure function of the summary."""
    return (
        *best.best_treatment_findings(summary),
        *factors.factor_findings(summary),
        *knee.knee_findings(summary),
        *surprises.surprise_findings(summary),
        *instability.instability_findings(summary),
    )
