"""Explain failed trials first: how many failed, why, and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from vnetbench.estimate.failures import FailedTrials
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.explain.experiment_command import build_experiment_command
from vnetbench.explain.model import CandidateCause, EvidenceChart, Finding
from vnetbench.explain.rules import get_cause
from vnetbench.failure_kinds import (
    AGENT_GONE,
    COUNT_MISMATCH,
    CPU_SET_FACTORS,
    KINDS_PATH_MAY_HAVE_CAUSED,
    MTU_BLACK_HOLE,
    NO_CPU_TIME,
    NO_DATA,
    PATH_BLOCKED,
    PATH_REFUSAL_KINDS,
    SYSTEM_REFUSED,
    TESTBED_CHANGED,
    TIMEOUT,
    WRONG_LISTENER,
)
from vnetbench.quantity import format_count_with_noun
from vnetbench.wording.factor_text import capitalize_sentence

FAILED_KIND = "failed"
"""Kind of a finding about failed trials."""
_OBSERVED, _INFERRED, _GUESSED = "very likely", "likely", "possible"
_UNKNOWN_CAUSE_NAME = "unknown"
_CHANGED_FACTOR_PATTERN = re.compile(r"(?:[^:=]+: )?(\w+) = .* did not take effect")
"""The factor in the text about a setting that was read back with another value (`lab/knobs.py`)."""


class FailureCause(NamedTuple):
    """The cause of a failure, and whether the bench observed or inferred it."""

    name: str
    confidence: str


_CAUSE_BY_KIND: Mapping[str, FailureCause] = {
    "interface": FailureCause("link_down", _OBSERVED),
    MTU_BLACK_HOLE: FailureCause("mtu_black_hole", _OBSERVED),
    PATH_BLOCKED: FailureCause("path_blocked", _OBSERVED),
    NO_DATA: FailureCause("path_interrupted", _INFERRED),
    "connection": FailureCause("no_connection", _OBSERVED),
    "unreachable": FailureCause("no_connection", _OBSERVED),
    TIMEOUT: FailureCause("no_connection", _INFERRED),
    "stream": FailureCause("connection_broken", _OBSERVED),
    AGENT_GONE: FailureCause("agent_gone", _OBSERVED),
    "server": FailureCause("server_failed", _OBSERVED),
    "broken": FailureCause("server_failed", _INFERRED),
    NO_CPU_TIME: FailureCause("no_cpu_time", _OBSERVED),
    COUNT_MISMATCH: FailureCause("counts_contradict", _OBSERVED),
    SYSTEM_REFUSED: FailureCause("system_refused", _OBSERVED),
    TESTBED_CHANGED: FailureCause("testbed_changed", _OBSERVED),
    WRONG_LISTENER: FailureCause("wrong_listener", _OBSERVED),
}
"""Cause and confidence by failure kind, without a probe of the path."""


_LOSS_OF_ANY_SIZE = FailureCause("path_loss", _INFERRED)


@dataclass(frozen=True)
class _CauseGroup:
    """Failed trials with the same cause."""

    cause_name: str
    confidence: str
    failures: tuple[tuple[TreatmentSummary, FailedTrials], ...]

    @property
    def count(self) -> int:
        """Number of failed attempts."""
        return sum(failed.count for _, failed in self.failures)

    @property
    def treatments(self) -> tuple[TreatmentSummary, ...]:
        """Treatments with such failures, each once."""
        return tuple({treatment.index: treatment for treatment, _ in self.failures}.values())


def failure_findings(summary: CampaignSummary) -> tuple[Finding, ...]:
    """Return one finding for each cause of failed trials, the most frequent first."""
    total = count_attempts(summary)
    return tuple(_failure_finding(summary, group, total) for group in _group_by_cause(summary))


def failure_sentences(summary: CampaignSummary) -> tuple[str, ...]:
    """Return the sentence about failed trials for the answer; empty if none failed."""
    groups = _group_by_cause(summary)
    if not groups:
        return ()
    failed = sum(group.count for group in groups)
    causes = [
        f"{_cause_description(group)}{f' ({group.count})' if len(groups) > 1 else ''}" for group in groups
    ]
    trials = format_count_with_noun(count_attempts(summary), "trial")
    return (f"{failed} of {trials} failed: {'; '.join(causes)}.",)


def count_attempts(summary: CampaignSummary) -> int:
    """Return the number of trials, finished and failed."""
    finished = sum(treatment.trial_count for treatment in summary.treatments)
    return finished + sum(each.count for t in summary.treatments for each in t.failed_trials)


def cause_of_failure(failed: FailedTrials) -> FailureCause:
    """Return the cause of failed trials, from their kind and the probe of the path."""
    cause = _CAUSE_BY_KIND.get(failed.kind, FailureCause(_UNKNOWN_CAUSE_NAME, _INFERRED))
    changed = _CHANGED_FACTOR_PATTERN.match(failed.text)
    if failed.kind == TESTBED_CHANGED and changed and changed[1] in CPU_SET_FACTORS:
        return FailureCause("cpu_set_changed", _OBSERVED)
    small, large = (failed.path_probe.get(name) for name in ("small_passed", "large_passed"))
    if failed.kind not in KINDS_PATH_MAY_HAVE_CAUSED or small is None or large is None:
        return cause
    if small and not large:
        return FailureCause("mtu_black_hole", _OBSERVED)
    if large and not small:
        return _LOSS_OF_ANY_SIZE
    return cause if small else FailureCause("path_blocked", _OBSERVED)


def _causes_of_failures(failures: Sequence[FailedTrials]) -> Iterator[FailureCause]:
    """Yield the cause of each group of failed trials of a treatment.

    A probe whose large packets passed and whose small ones did not shows loss that does not depend on the
    size. The others, whose few packets that loss hit in another way, then show no MTU and no blocked path.
    """
    causes = [cause_of_failure(each) for each in failures]
    is_random = _LOSS_OF_ANY_SIZE in causes
    for failed, cause in zip(failures, causes, strict=True):
        is_by_probe = failed.kind in KINDS_PATH_MAY_HAVE_CAUSED and cause.name in PATH_REFUSAL_KINDS
        yield _LOSS_OF_ANY_SIZE if is_random and is_by_probe else cause


def _group_by_cause(summary: CampaignSummary) -> list[_CauseGroup]:
    groups: dict[str, list[tuple[TreatmentSummary, FailedTrials, str]]] = {}
    for treatment in summary.treatments:
        causes = _causes_of_failures(treatment.failed_trials)
        for failed, (name, confidence) in zip(treatment.failed_trials, causes, strict=True):
            groups.setdefault(name, []).append((treatment, failed, confidence))
    joined = [
        _CauseGroup(
            name,
            _lowest_confidence(name, [confidence for *_, confidence in members], [t for t, *_ in members]),
            tuple((treatment, failed) for treatment, failed, _ in members),
        )
        for name, members in groups.items()
    ]
    return sorted(joined, key=lambda group: -group.count)


def _lowest_confidence(cause: str, confidences: Sequence[str], treatments: Sequence[TreatmentSummary]) -> str:
    """Return the confidence in the cause of several failures.

    A path that fails in every trial and passes packets after each of them may drop only the load's packets.
    """
    if cause == "path_interrupted" and not any(treatment.trial_count for treatment in treatments):
        return _GUESSED
    return _INFERRED if _INFERRED in confidences else _OBSERVED


def _failure_finding(summary: CampaignSummary, group: _CauseGroup, total: int) -> Finding:
    first = group.failures[0][1]
    share = f"{group.count} of {format_count_with_noun(total, 'trial')} failed"
    confidence = "" if group.cause_name == _UNKNOWN_CAUSE_NAME else f" ({group.confidence})"
    reported = f"“{first.text.partition(chr(10))[0].rstrip('.')}”"
    sentences = [
        f"{share}{_affected_treatments_clause(summary, group)}: {_cause_description(group)}{confidence}.",
        _successful_trials_sentence(summary, group),
        f"Evidence: {'; '.join((reported, *_path_probe_phrases(first.path_probe)))}.",
    ]
    return Finding(
        kind=FAILED_KIND,
        text=capitalize_sentence(" ".join(sentences)),
        treatment_indices=tuple(treatment.index for treatment in group.treatments),
        candidates=_candidates_of_group(summary, group),
        chart=_failed_and_finished_trials_chart(summary, group),
        details={
            "cause": group.cause_name,
            "failed_trials": group.count,
            "all_trials": total,
            "kinds": sorted({failed.kind for _, failed in group.failures}),
            "path_probe": dict(first.path_probe),
        },
    )


def _cause_description(group: _CauseGroup) -> str:
    if group.cause_name == _UNKNOWN_CAUSE_NAME:
        kinds = sorted({failed.kind for _, failed in group.failures if failed.kind})
        if not kinds:
            return "the results file does not state the cause"
        noun = "kind" if len(kinds) == 1 else "kinds"
        return f"the results file states only the {noun} of failure: {', '.join(kinds)}"
    return get_cause(group.cause_name).description


def _affected_treatments_clause(summary: CampaignSummary, group: _CauseGroup) -> str:
    if len(summary.treatments) == 1:
        return ""
    return f", in {len(group.treatments)} of {format_count_with_noun(len(summary.treatments), 'treatment')}"


def _path_probe_phrases(probe: Mapping[str, object]) -> Iterator[str]:
    """Yield which packets passed right after the failure; nothing without a probe."""
    if "small_passed" not in probe:
        return
    small, large = probe["small_bytes"], probe["large_bytes"]
    is_tcp = probe.get("protocol") == "tcp"
    packets = "TCP segments in packets" if is_tcp else "UDP packets"
    when = "right after the failure"
    contrast = ", although UDP datagrams of both sizes passed" if is_tcp else ""
    if probe["small_passed"] and not probe["large_passed"]:
        yield f"{when}, {packets} of {small} bytes passed, but not those of {large} bytes{contrast}"
    elif probe["large_passed"] and not probe["small_passed"]:
        yield f"{when}, {packets} of {large} bytes passed, but not those of {small} bytes{contrast}"
    elif not probe["small_passed"]:
        yield f"{when}, not even {packets} of {small} bytes passed{contrast}"
    else:
        yield f"right after the failure, UDP packets of {small} and of {large} bytes passed"


def _successful_trials_sentence(summary: CampaignSummary, group: _CauseGroup) -> str:
    """Return whether other trials succeeded, and what that says about the fault."""
    recovered = sum(treatment.trial_count for treatment in group.treatments)
    if not recovered:
        return "No trial of these treatments succeeded."
    others = f"{format_count_with_noun(recovered, 'other trial')} succeeded"
    if summary.is_imported:
        return f"{others}, so the fault comes and goes."
    return (
        f"{others}, so the fault comes and goes, or it vanished with the testbed, "
        "which the bench rebuilds after a failure."
    )


def _candidates_of_group(summary: CampaignSummary, group: _CauseGroup) -> tuple[CandidateCause, ...]:
    if group.cause_name == _UNKNOWN_CAUSE_NAME:
        return ()
    cause = get_cause(group.cause_name)
    command = build_experiment_command(summary, group.treatments[0], cause).command
    return (CandidateCause(cause, 1.0, group.confidence, (), command),)


def _failed_and_finished_trials_chart(summary: CampaignSummary, group: _CauseGroup) -> EvidenceChart | None:
    """Return the number of finished and failed trials of each affected treatment as bars."""
    from vnetbench.wording.treatment_names import treatment_name

    rows: list[Mapping[str, str | float]] = []
    for treatment in group.treatments:
        failed = sum(each.count for t, each in group.failures if t.index == treatment.index)
        name = treatment_name(summary, treatment)
        prefix = f"{name}: " if len(summary.treatments) > 1 else ""
        rows.append({"x": f"{prefix}failed", "y": float(failed)})
        rows.append({"x": f"{prefix}finished", "y": float(treatment.trial_count)})
    return EvidenceChart("bars", "How many trials failed?", "trials", "number of trials", tuple(rows[:12]))


def has_failed_trials(treatments: Sequence[TreatmentSummary]) -> bool:
    """Return whether a trial of one of these treatments failed."""
    return any(treatment.failed_trials for treatment in treatments)
