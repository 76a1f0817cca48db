"""The result of a check, from which all its outputs are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from vnetbench.audit.settings import SettingsAudit
from vnetbench.check.ends import CheckedPath
from vnetbench.check.limits import PathLimit, find_limits, is_abandoned
from vnetbench.check.measurements import Measurement, MissingMeasurement, find_missing, measure_path
from vnetbench.check.requirements import JudgedRequirement, Requirement, judge_requirement
from vnetbench.check.settings_audit import evidence_of_limits
from vnetbench.check.verdict import build_verdict
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.explain.explain import explain


@dataclass(frozen=True)
class CheckResult:
    """What a check found."""

    path: CheckedPath
    depth: str
    max_rate_bps: int | None
    is_complete: bool
    """False if a part was interrupted or could not run, or if a treatment failed or was refused."""
    verdict: tuple[str, str]
    limits: tuple[PathLimit, ...]
    audit: SettingsAudit
    measurements: tuple[Measurement, ...]
    missing: tuple[MissingMeasurement, ...]
    requirements: tuple[JudgedRequirement, ...]
    results_files: Mapping[str, str]
    """Results file of each part; empty if they were temporary."""
    overrides: tuple[str, ...] = ()
    """The `--set` arguments."""
    has_consent: bool = False
    """Whether the user consented to the load on the command line (`--yes`)."""
    notes: tuple[str, ...] = ()
    """What happened to parts that did not finish."""


@dataclass(frozen=True)
class CheckRequest:
    """What the user requested."""

    path: CheckedPath
    depth: str
    max_rate_bps: int | None
    requirements: Sequence[Requirement] = ()
    overrides: tuple[str, ...] = ()
    """The `--set` arguments."""
    has_consent: bool = False
    """Whether the user consented to the load on the command line (`--yes`)."""


def build_result(
    request: CheckRequest,
    summaries: Mapping[str, CampaignSummary],
    kept_files: Mapping[str, Path],
    audit: SettingsAudit,
    *,
    is_complete: bool,
    notes: Sequence[str] = (),
) -> CheckResult:
    """Return the result of the parts that ran."""
    path = request.path
    files = {part: str(file) for part, file in kept_files.items()}
    measurements = measure_path(path, summaries, files)
    explanations = {part: explain(summary) for part, summary in summaries.items()}
    limits = find_limits(explanations, summaries, has_max_rate=request.max_rate_bps is not None)
    return CheckResult(
        path=path,
        depth=request.depth,
        max_rate_bps=request.max_rate_bps,
        is_complete=is_complete
        and not any(is_abandoned(each) for summary in summaries.values() for each in summary.treatments),
        verdict=build_verdict(path, measurements, limits),
        limits=limits,
        audit=audit.with_measured_effects(evidence_of_limits(limits)),
        measurements=measurements,
        missing=find_missing(path, measurements),
        requirements=tuple(judge_requirement(each, measurements, path) for each in request.requirements),
        results_files=files,
        overrides=request.overrides,
        has_consent=request.has_consent,
        notes=tuple(notes),
    )
