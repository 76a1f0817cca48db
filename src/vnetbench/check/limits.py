"""The limits of a checked path: the findings of all parts in one list, the most important first."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from vnetbench.check.measurements import UNPACED
from vnetbench.check.parts import PACKETS, PART_NAMES
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.explain.limits import NO_LIMIT_CAUSE_NAME, UNEXPLAINED_CAUSE_NAME
from vnetbench.explain.model import REFUTED, CandidateCause, Explanation, Finding

FAILED_TRIALS = "failed"
"""Cause of a limit that stands for failed or refused measurements."""
_LIMIT_KINDS = ("limit", "not explained", "instrument")
_STRONG_CONFIDENCE = ("confirmed", "very likely", "likely")


@dataclass(frozen=True)
class PathLimit:
    """One limit of the path, or one fault."""

    cause: str
    """Name of the cause (docs/causes.md), `failed`, `nothing` or `not explained`."""
    description: str
    """The cause as a clause."""
    confidence: str
    """A word of docs/explain.md; empty without a cause."""
    is_fault: bool
    """False for a limit that every run at full speed has."""
    part: str
    """The part of the check that found it."""
    treatment_count: int
    """Number of treatments that it limits."""
    measured_treatment_count: int
    evidence: str
    """The finding's own sentence."""
    advice: str
    """What to change, in words."""
    fix_command: str
    """A command that changes it, or shows where to; empty if no standard command does."""
    can_be_tested: bool
    """Whether an experiment of `explain --prove` can test it."""


def find_limits(
    explanations: Mapping[str, Explanation], summaries: Mapping[str, CampaignSummary]
) -> tuple[PathLimit, ...]:
    """Return the limits of all parts. Each cause stands once, with the part that is most sure of it."""
    limits = [
        limit
        for part in PART_NAMES
        if part in explanations
        for limit in _limits_of_part(part, explanations[part], summaries[part])
    ]
    by_cause: dict[str, PathLimit] = {}
    for limit in sorted(limits, key=_order):
        by_cause.setdefault(limit.cause, limit)
    # "Nothing limits" and "not explained" say little beside a cause.
    if any(_is_cause(each) for each in by_cause.values()):
        return tuple(each for each in by_cause.values() if _is_cause(each))
    return tuple(by_cause.values())


def _is_cause(limit: PathLimit) -> bool:
    return limit.cause not in (NO_LIMIT_CAUSE_NAME, UNEXPLAINED_CAUSE_NAME)


def _order(limit: PathLimit) -> tuple[bool, bool, bool, int, int]:
    """Sort failures first, then likely faults, then normal limits; the parts decide among equals."""
    is_sure = limit.confidence in _STRONG_CONFIDENCE
    return (
        limit.cause != FAILED_TRIALS,
        not _is_cause(limit),
        not (limit.is_fault and is_sure),
        PART_NAMES.index(limit.part),
        -limit.treatment_count,
    )


def _limits_of_part(part: str, explanation: Explanation, summary: CampaignSummary) -> Iterator[PathLimit]:
    """Yield the failures of a part, then its limits, those of most treatments first."""
    flooded = {
        each.index
        for each in summary.treatments
        if part == PACKETS and each.factors["rate"] in (UNPACED, max(_rates(summary), default=UNPACED))
    }
    measured_count = sum(bool(each.points) for each in summary.treatments)
    for finding in explanation.findings:
        if finding.kind == "failed":
            yield _failure(part, finding, summary, measured_count)
        elif finding.kind in _LIMIT_KINDS:
            # Datagrams at full speed overflow some buffer on every path: that is what they measure.
            is_flood = bool(flooded) and set(finding.treatment_indices) <= flooded
            yield _limit(part, finding, measured_count, is_flood=is_flood)
    refused = [each for each in summary.treatments if each.stop_reason == "refused" and each.failures]
    if refused:
        reasons = tuple(dict.fromkeys(each.failures[0] for each in refused))
        yield _make_failure(part, reasons[0], len(refused), measured_count)


def _rates(summary: CampaignSummary) -> list[float]:
    rates = (each.factors.get("rate") for each in summary.treatments)
    return [float(rate) for rate in rates if isinstance(rate, int | float)]


def _failure(part: str, finding: Finding, summary: CampaignSummary, measured_count: int) -> PathLimit:
    first = _top_candidate(finding)
    if first is None:
        return _make_failure(part, finding.text, len(finding.treatment_indices), measured_count)
    return _make_limit(part, finding, first, measured_count, is_fault=True, cause=FAILED_TRIALS)


def _make_failure(part: str, reason: str, treatment_count: int, measured_count: int) -> PathLimit:
    what, _, fix = reason.partition("\n  fix: ")
    return PathLimit(
        cause=FAILED_TRIALS,
        description=what,
        confidence="",
        is_fault=True,
        part=part,
        treatment_count=treatment_count,
        measured_treatment_count=measured_count,
        evidence=what,
        advice=fix,
        fix_command="",
        can_be_tested=False,
    )


def _limit(part: str, finding: Finding, measured_count: int, *, is_flood: bool) -> PathLimit:
    first = _top_candidate(finding)
    if first is not None:
        return _make_limit(
            part, finding, first, measured_count, is_fault=first.cause.is_fault and not is_flood
        )
    cause = str(finding.details.get("cause", UNEXPLAINED_CAUSE_NAME))
    is_nothing = cause == NO_LIMIT_CAUSE_NAME
    return PathLimit(
        cause=cause,
        description="nothing limits the load" if is_nothing else "the counters do not explain the limit",
        confidence="",
        is_fault=False,
        part=part,
        treatment_count=len(finding.treatment_indices),
        measured_treatment_count=measured_count,
        evidence=finding.text,
        advice="",
        fix_command="",
        can_be_tested=False,
    )


def _make_limit(
    part: str,
    finding: Finding,
    first: CandidateCause,
    measured_count: int,
    *,
    is_fault: bool,
    cause: str = "",
) -> PathLimit:
    return PathLimit(
        cause=cause or first.cause.name,
        description=first.cause.description,
        confidence=first.confidence,
        is_fault=is_fault,
        part=part,
        treatment_count=len(finding.treatment_indices),
        measured_treatment_count=measured_count,
        evidence=finding.text,
        advice=first.cause.advice,
        fix_command=_read_fix_commands().get(first.cause.name, ""),
        can_be_tested=bool(first.command),
    )


def _top_candidate(finding: Finding) -> CandidateCause | None:
    """Return the first candidate that no experiment refuted."""
    return next((each for each in finding.candidates if each.confidence != REFUTED), None)


@lru_cache
def _read_fix_commands() -> Mapping[str, str]:
    """Return the command for each cause that one standard command changes or shows."""
    commands: Mapping[str, str] = tomllib.loads(
        (files("vnetbench.check") / "fix_commands.toml").read_text(encoding="utf-8")
    )
    return commands
