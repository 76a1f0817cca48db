"""Audited settings as evidence: findings whose rule names the cause that explains a result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from vnetbench.audit import finding as audit_finding
from vnetbench.audit.stored import read_stored_audit
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.explain.model import REFUTED, CandidateCause, Finding, SettingEvidence
from vnetbench.wording.factor_text import factor_names


def add_settings(findings: Iterable[Finding], summary: CampaignSummary) -> Iterator[Finding]:
    """Yield the findings with the audited settings that are about their candidate causes.

    Settings do not change the order of the candidates: that follows from measurements alone.
    """
    settings_by_cause = _settings_by_cause(summary)
    for finding in findings:
        candidates = tuple(_add_to_candidate(each, settings_by_cause) for each in finding.candidates)
        yield replace(finding, candidates=candidates)


def _add_to_candidate(
    candidate: CandidateCause, settings_by_cause: Mapping[str, list[SettingEvidence]]
) -> CandidateCause:
    settings = settings_by_cause.get(candidate.cause.name)
    if candidate.confidence == REFUTED or not settings:
        return candidate
    return replace(candidate, settings=tuple(settings))


def _settings_by_cause(summary: CampaignSummary) -> dict[str, list[SettingEvidence]]:
    audit = read_stored_audit(summary.facts)
    set_factors = factor_names(summary.factors)
    settings: dict[str, list[SettingEvidence]] = {}
    for each in audit.findings if audit else ():
        # A setting that the treatments set is no longer what the audit has read.
        is_set = each.rule.proof is not None and set(each.rule.proof.levels) & set(set_factors)
        if each.rule.cause and not is_set:
            settings.setdefault(each.rule.cause, []).append(_to_evidence(each))
    return settings


def _to_evidence(each: audit_finding.Finding) -> SettingEvidence:
    location = f"{each.target}, {each.object_name}" if each.rule.object != "machine" else each.target
    return SettingEvidence(each.rule.id, each.rule.problem, location, each.found, each.expected, each.fix)
