"""The settings of several machines, judged: what a check and a campaign know about the ends of their path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from vnetbench.audit.finding import AuditResult, Finding, Relevance
from vnetbench.audit.inventory import Inventory
from vnetbench.audit.judge import judge
from vnetbench.audit.rules import load_rules, select_rules


@dataclass(frozen=True)
class SettingsAudit:
    """The settings and the findings of the machines that could be read. `judge_settings` makes it."""

    result: AuditResult | None
    """None if no machine could be read: then nothing is known about the settings."""
    unread: Mapping[str, str] = field(default_factory=dict)
    """Machines whose settings could not be read, with a sentence each."""
    inventories: tuple[Inventory, ...] = field(default=(), repr=False)
    """What was read of each machine."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings, most severe first."""
        return self.result.findings if self.result else ()

    @property
    def serious_findings(self) -> tuple[Finding, ...]:
        """Errors and warnings."""
        return tuple(each for each in self.findings if each.rule.severity != "note")

    @property
    def sentences(self) -> tuple[str, ...]:
        """The answer of the audit, and which machines it does not cover."""
        answer = () if self.result is None else (self.result.answer,)
        return (*answer, *self.unread.values())

    def with_measured_effects(self, evidence_by_cause: Mapping[str, str]) -> SettingsAudit:
        """Return the audit in which a finding is `measured` if its cause explains the result.

        Args:
            evidence_by_cause: The causes that explain the measurements, and a sentence with the evidence.
        """
        if self.result is None:
            return self
        findings = tuple(
            replace(each, matters_here=Relevance("measured", evidence))
            if (evidence := evidence_by_cause.get(each.rule.cause or ""))
            else each
            for each in self.result.findings
        )
        return replace(self, result=replace(self.result, findings=findings))


def judge_settings(inventories: Sequence[Inventory], unread: Mapping[str, str]) -> SettingsAudit:
    """Return the audit of machines that were read, by all rules."""
    result = judge(inventories, select_rules(load_rules(), ())) if inventories else None
    return SettingsAudit(result, dict(unread), tuple(inventories))
