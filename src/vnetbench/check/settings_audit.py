"""The audit of both ends' settings, and which findings this check shows the effect of."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from vnetbench.audit.finding import AuditResult, Finding, Relevance
from vnetbench.audit.inventory import Inventory
from vnetbench.audit.judge import judge
from vnetbench.audit.rules import load_rules, select_rules
from vnetbench.audit.targets import LOCAL, read_target
from vnetbench.check.ends import CheckedPath, End
from vnetbench.check.limits import PathLimit
from vnetbench.errors import BenchError


@dataclass(frozen=True)
class SettingsAudit:
    """The findings of the ends that could be read."""

    result: AuditResult | None
    """None if no end could be read: then nothing is known about the settings."""
    unread: tuple[str, ...] = ()
    """A sentence for each end whose settings could not be read."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings, most severe first."""
        return self.result.findings if self.result else ()

    @property
    def serious_findings(self) -> tuple[Finding, ...]:
        """Errors and warnings."""
        return tuple(each for each in self.findings if each.rule.severity != "note")

    def with_measured_effects(self, limits: Collection[PathLimit]) -> SettingsAudit:
        """Return the audit in which a finding is `measured` if the check names its cause as a limit."""
        if self.result is None:
            return self
        limit_by_cause = {each.cause: each for each in limits}
        findings = tuple(
            replace(each, matters_here=_measured_effect(limit))
            if (limit := limit_by_cause.get(each.rule.cause or ""))
            else each
            for each in self.result.findings
        )
        return replace(self, result=replace(self.result, findings=findings))


def audit_ends(path: CheckedPath) -> SettingsAudit:
    """Read and judge the settings of both ends, before the load. An end that cannot be read is named."""
    inventories: list[Inventory] = []
    unread: list[str] = []
    for target, end in {_target_of(end): end for end in (path.first, path.second)}.items():
        if target is None:
            unread.append(f"The settings of {end.name} were not audited: it is an iperf3 server.")
            continue
        for each in read_target(target):
            if isinstance(each, BenchError):
                unread.append(f"The settings of {end.name} were not audited: {each.what}.")
            else:
                inventories.append(each)
    result = judge(inventories, select_rules(load_rules(), ())) if inventories else None
    return SettingsAudit(result, tuple(unread))


def audit_sentences(audit: SettingsAudit) -> Iterator[str]:
    """Yield the answer of the audit, and which ends it does not cover."""
    if audit.result is not None:
        yield audit.result.answer
    yield from audit.unread


def _target_of(end: End) -> str | None:
    """Return what `vnetbench audit` calls an end. The namespaces of the lab have this machine's settings."""
    if end.access == "iperf3":
        return None
    return end.destination if end.access == "ssh" else LOCAL


def _measured_effect(limit: PathLimit) -> Relevance:
    return Relevance("measured", f"this check names it: {limit.evidence}")
