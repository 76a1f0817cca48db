"""The limits of a checked path: the findings of all parts in one list, the most important first."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from statistics import median

from vnetbench.check.measurements import UNPACED
from vnetbench.check.parts import GOODPUT, PACKETS, PART_NAMES
from vnetbench.estimate.metrics import is_lower_better
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.explain.explain import INSTRUMENT_FAMILY
from vnetbench.explain.limits import NO_LIMIT_CAUSE_NAME, UNEXPLAINED_CAUSE_NAME
from vnetbench.explain.model import REFUTED, CandidateCause, Explanation, Finding
from vnetbench.study.factors.load_factors import PACING_RATE, REQUEST_OR_DATAGRAM_RATE, STREAMS

MAX_RATE = "max_rate"
"""Cause of a limit that the option --max-rate sets."""
_REACHED_RATE_SHARE = 0.95
"""From this share of --max-rate on, the option limits the goodput, and nothing else does."""
FAILED_TRIALS = "failed"
"""Cause of a limit that stands for failed or refused measurements."""
_LIMIT_KINDS = ("limit", "not explained", "instrument")
_CAUSES_ABOUT_PRECISION = ("too_few_trials",)
"""Causes that doubt the intervals and say nothing about the path."""
TELLING_SLOWDOWN = 4.0
"""From this ratio to the best treatment on, even a possible fault ranks with the likely ones."""
_STRONG_CONFIDENCE = ("confirmed", "very likely", "likely")


@dataclass(frozen=True)
class PathLimit:
    """One limit of the path, or one fault."""

    cause: str
    """Name of the cause (docs/causes.md), `failed`, `max_rate`, `nothing` or `not explained`."""
    description: str
    """The cause as a clause."""
    confidence: str
    """A word of docs/explain.md; empty without a cause."""
    prevents_measurement: bool
    """Whether treatments could not be measured, or not to the end."""
    is_fault: bool
    """False for a limit that every run at full speed has."""
    part: str
    """The part of the check that found it."""
    slowdown: float
    """How many times worse than the part's best treatment these treatments are (median)."""
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
    explanations: Mapping[str, Explanation],
    summaries: Mapping[str, CampaignSummary],
    *,
    has_max_rate: bool = False,
) -> tuple[PathLimit, ...]:
    """Return the limits of all parts. Each cause stands once, where it ranks highest.

    With `has_max_rate` the check itself paces the streams, so that this limit is no fault.
    """
    limits = [
        limit
        for part in PART_NAMES
        if part in explanations
        for limit in _limits_of_part(
            _PartTreatments(part, summaries[part], has_max_rate=has_max_rate), explanations[part]
        )
    ]
    by_cause: dict[str, PathLimit] = {}
    for limit in sorted(limits, key=_order):
        by_cause.setdefault(limit.cause, limit)
    # "Nothing limits" and "not explained" say little beside a cause.
    if any(_is_cause(each) for each in by_cause.values()):
        return tuple(each for each in by_cause.values() if _is_cause(each))
    return tuple(by_cause.values())


def _as_max_rate(limit: PathLimit) -> PathLimit:
    return replace(
        limit,
        cause=MAX_RATE,
        description="--max-rate limits the load, so the path may carry more",
        confidence="",
        is_fault=False,
        advice="",
        can_be_tested=False,
    )


def _is_cause(limit: PathLimit) -> bool:
    return limit.cause not in (NO_LIMIT_CAUSE_NAME, UNEXPLAINED_CAUSE_NAME)


def _order(limit: PathLimit) -> tuple[bool, bool, bool, int, int, int]:
    """Sort failures first, then likely faults, then normal limits; part and slowdown decide among equals."""
    is_sure = limit.confidence in _STRONG_CONFIDENCE
    return (
        not limit.prevents_measurement,
        not _is_cause(limit),
        not (limit.is_fault and (is_sure or limit.slowdown >= TELLING_SLOWDOWN)),
        PART_NAMES.index(limit.part),
        # A path is as bad as its worse direction. Slowdowns within a factor of two count as equal.
        -math.floor(math.log2(limit.slowdown)),
        -limit.treatment_count,
    )


def _limits_of_part(measured: _PartTreatments, explanation: Explanation) -> Iterator[PathLimit]:
    """Yield the failures of a part, then its limits, those of most treatments first."""
    part, summary = measured.part, measured.summary
    flooded = _flooded_treatments(summary) if part == PACKETS else frozenset()
    for finding in explanation.findings:
        if finding.kind == "failed":
            yield _failure(measured, finding)
        elif finding.kind in _LIMIT_KINDS and finding.details.get("cause") not in _CAUSES_ABOUT_PRECISION:
            # Datagrams at full speed overflow some buffer on every path: that is what they measure.
            is_flood = bool(flooded) and set(finding.treatment_indices) <= flooded
            yield _limit(measured, finding, is_flood=is_flood)
    refused = [each for each in summary.treatments if each.stop_reason == "refused" and each.failures]
    if refused:
        reasons = tuple(dict.fromkeys(each.failures[0] for each in refused))
        yield _make_failure(measured, reasons[0], len(refused))


def is_abandoned(treatment: TreatmentSummary) -> bool:
    """Return whether failures or a refusal ended the measurement of a treatment."""
    return treatment.stop_reason in ("failed", "refused")


def _flooded_treatments(summary: CampaignSummary) -> frozenset[int]:
    """Return the indices of the treatments whose datagrams are not sent at the lowest rate."""
    rate_by_index = {each.index: each.factors[REQUEST_OR_DATAGRAM_RATE.name] for each in summary.treatments}
    lowest = min((rate for rate in rate_by_index.values() if rate != UNPACED), key=float, default=UNPACED)
    return frozenset(index for index, rate in rate_by_index.items() if rate != lowest)


@dataclass(frozen=True)
class _PartTreatments:
    """A part with its treatments."""

    part: str
    summary: CampaignSummary
    has_max_rate: bool = False

    @property
    def measured_count(self) -> int:
        """Number of treatments with trials."""
        return sum(bool(each.points) for each in self.summary.treatments)

    def reach_max_rate(self, indices: Sequence[int]) -> bool:
        """Return whether these treatments are as fast as --max-rate lets them be."""
        return self.part == GOODPUT and all(
            each.points
            and each.metrics["goodput_bps"].value
            >= _REACHED_RATE_SHARE * int(each.factors[PACING_RATE.name]) * int(each.factors[STREAMS.name])
            for each in self.summary.treatments
            if each.index in indices
        )

    def slowdown(self, indices: Sequence[int]) -> float:
        """Return how many times worse the treatments with these indices are, at least 1.

        Each is compared with the best treatment that offers the same load.
        """
        metric = self.summary.deciding_metric
        measured = [each for each in self.summary.treatments if each.metrics.get(metric)]
        ratios = []
        for each in measured:
            # A treatment that offers fewer datagrams also delivers fewer.
            same_rate = [
                other.metrics[metric].value
                for other in measured
                if other.factors.get(REQUEST_OR_DATAGRAM_RATE.name)
                == each.factors.get(REQUEST_OR_DATAGRAM_RATE.name)
            ]
            value = each.metrics[metric].value
            if each.index in indices and value > 0 and min(same_rate) > 0:
                best_first = (value, min(same_rate)) if is_lower_better(metric) else (max(same_rate), value)
                ratios.append(best_first[0] / best_first[1])
        return max(1.0, median(ratios)) if ratios else 1.0


def _failure(treatments: _PartTreatments, finding: Finding) -> PathLimit:
    first = _top_candidate(finding)
    if first is None:
        return _make_failure(treatments, finding.text.rstrip("."), len(finding.treatment_indices))
    limit = _make_limit(treatments, finding, first, is_fault=True)
    abandoned = {each.index for each in treatments.summary.treatments if is_abandoned(each)}
    return replace(limit, prevents_measurement=bool(abandoned & set(finding.treatment_indices)))


def _make_failure(treatments: _PartTreatments, reason: str, treatment_count: int) -> PathLimit:
    what, _, fix = reason.partition("\n  fix: ")
    return PathLimit(
        cause=FAILED_TRIALS,
        description=what,
        confidence="",
        prevents_measurement=True,
        is_fault=True,
        part=treatments.part,
        slowdown=1.0,
        treatment_count=treatment_count,
        measured_treatment_count=treatments.measured_count,
        evidence=what,
        advice=fix,
        fix_command="",
        can_be_tested=False,
    )


def _limit(treatments: _PartTreatments, finding: Finding, *, is_flood: bool) -> PathLimit:
    first = _top_candidate(finding)
    if first is not None:
        is_fault = first.cause.is_fault and not is_flood and first.cause.family != INSTRUMENT_FAMILY
        return _make_limit(treatments, finding, first, is_fault=is_fault)
    cause = str(finding.details.get("cause", UNEXPLAINED_CAUSE_NAME))
    is_nothing = cause == NO_LIMIT_CAUSE_NAME
    return PathLimit(
        cause=cause,
        description="nothing limits the load" if is_nothing else "the counters do not explain the limit",
        confidence="",
        prevents_measurement=False,
        is_fault=False,
        part=treatments.part,
        slowdown=treatments.slowdown(finding.treatment_indices),
        treatment_count=len(finding.treatment_indices),
        measured_treatment_count=treatments.measured_count,
        evidence=finding.text,
        advice="",
        fix_command="",
        can_be_tested=False,
    )


def _make_limit(
    treatments: _PartTreatments, finding: Finding, first: CandidateCause, *, is_fault: bool
) -> PathLimit:
    limit = PathLimit(
        cause=first.cause.name,
        description=first.cause.description,
        confidence=first.confidence,
        prevents_measurement=False,
        is_fault=is_fault,
        part=treatments.part,
        slowdown=treatments.slowdown(finding.treatment_indices),
        treatment_count=len(finding.treatment_indices),
        measured_treatment_count=treatments.measured_count,
        evidence=finding.text,
        advice=first.cause.advice,
        fix_command=_read_fix_commands().get(first.cause.name, ""),
        can_be_tested=bool(first.command),
    )
    is_own_pacing = treatments.has_max_rate and (
        PACING_RATE.name in first.cause.experiment_levels
        or treatments.reach_max_rate(finding.treatment_indices)
    )
    return _as_max_rate(limit) if is_own_pacing else limit


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
