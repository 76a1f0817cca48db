"""The sentences about a campaign in reading order: answer, findings, measurements, effects and caveats."""

from __future__ import annotations

from dataclasses import dataclass

from vnetbench.explain.model import Explanation, Finding


@dataclass(frozen=True)
class Narrative:
    """All sentences about a campaign, one or two sentences per string. No sentence appears twice."""

    question: str
    answer: tuple[str, ...]
    """The answer: the effect, the best treatment, and what limits it."""
    findings: tuple[Finding, ...]
    further_results: tuple[str, ...]
    """Treatments tied with the best, latency under load, and cycle costs, unless a finding reports them."""
    effects_without_finding: tuple[str, ...]
    """The effects of the factors, unless a finding reports them."""
    caveats: tuple[str, ...]
    """The precision reached, and the results that are missing."""

    @property
    def findings_as_explanation(self) -> Explanation:
        """The findings with the answer, as an explanation."""
        return Explanation(self.answer, self.findings)
