"""Summaries that are kept in the results file, so that the next command need not estimate again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from vnetbench.dataclass_json import UnexpectedValue, from_json_value, to_json_value
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary, TrialPoint
from vnetbench.method_version import method_version
from vnetbench.results.cache_table import read_cached_values, read_change_counter, store_cached_values
from vnetbench.results.file import ResultsFile
from vnetbench.results.records import RUNNING

_SUMMARY, _POINTS = "summary", "summary points "


def read_or_compute_summary(file: ResultsFile) -> CampaignSummary:
    """Return the summary of a results file, from the file if it is stored there and still valid.

    A summary that had to be computed is stored, unless the file is read-only or a campaign writes to it. The
    end of a killed campaign changes nothing in the file, so the summary of a running one is never stored.

    Raises:
        BenchError: The file cannot be read.
    """
    counter = read_change_counter(file.path)
    stored = _summary_from_values(read_cached_values(file.path, method_version(), f"{_SUMMARY}*"))
    if stored is not None:
        return replace(stored, path=str(file.path), change_counter=counter)
    from vnetbench.estimate.summarize import summarize

    summary = summarize(file)
    if counter is None or summary.status == RUNNING or not store_summary(file.path, counter, summary):
        return summary
    return replace(summary, change_counter=counter + 1)


def store_summary(path: Path, counter: int, summary: CampaignSummary) -> bool:
    """Store a summary if reading it back gives the same one; return whether it is stored."""
    try:
        values = _summary_to_values(summary)
        if _summary_from_values(values) != summary:
            return False
    except UnexpectedValue:
        return False
    return store_cached_values(path, method_version(), counter, values)


def _summary_to_values(summary: CampaignSummary) -> dict[str, Any]:
    """Return the summary without trials, and the trials of each treatment, by name."""
    values = {
        f"{_POINTS}{number}": [to_json_value(point) for point in treatment.points]
        for number, treatment in enumerate(summary.treatments)
    }
    treatments = tuple(replace(each, points=()) for each in summary.treatments)
    return {_SUMMARY: to_json_value(replace(summary, treatments=treatments)), **values}


def _summary_from_values(values: Mapping[str, Any]) -> CampaignSummary | None:
    """Return the summary; None if it is absent or not whole."""
    try:
        summary = from_json_value(CampaignSummary, values[_SUMMARY])
        treatments = tuple(
            _replace_points(treatment, values[f"{_POINTS}{number}"])
            for number, treatment in enumerate(summary.treatments)
        )
    except (KeyError, UnexpectedValue):
        return None
    return replace(summary, treatments=treatments)


def _replace_points(treatment: TreatmentSummary, points: Any) -> TreatmentSummary:
    if not isinstance(points, list):
        raise UnexpectedValue("the trials of a treatment are no list")
    return replace(treatment, points=tuple(from_json_value(TrialPoint, each) for each in points))
