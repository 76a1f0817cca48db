"""Summaries that are kept in the results file, so that the next command need not estimate again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from vnetbench.dataclass_json import UnexpectedValue, from_json_value, to_json_value
from vnetbench.estimate.summary import CampaignSummary, TrialPoint
from vnetbench.method_version import method_version
from vnetbench.results.cache_table import read_cached_values, read_change_counter, store_cached_values
from vnetbench.results.file import ResultsFile
from vnetbench.results.records import RUNNING

_SUMMARY, _BARE_SUMMARY, _PART_COUNTS = "summary", "without trials", "parts of treatments"
_VALUES_OF_A_PART = 100_000
"""Numbers in a part of a treatment's trials. It bounds the memory that reading and storing take."""
_VALUES_OF_A_TRIAL = 100
"""Numbers that a trial has in addition to its time series, roughly."""


def read_or_compute_summary(file: ResultsFile) -> CampaignSummary:
    """Return the summary of a results file, from the file if it is stored there and still valid.

    A summary that had to be computed is stored, unless the file is read-only or a campaign writes to it. The
    end of a killed campaign changes nothing in the file, so the summary of a running one is never stored.

    Raises:
        BenchError: The file cannot be read.
    """
    change_counter = read_change_counter(file.path)
    stored = _summary_from_values(read_cached_values(file.path, method_version(), f"{_SUMMARY}*"))
    if stored is not None:
        return replace(stored, path=str(file.path), change_counter=change_counter)
    from vnetbench.estimate.summarize import summarize

    summary = summarize(file)
    if (
        change_counter is None
        or summary.status == RUNNING
        or not store_summary(file.path, change_counter, summary)
    ):
        return summary
    return replace(summary, change_counter=change_counter + 1)


def store_summary(path: Path, change_counter: int, summary: CampaignSummary) -> bool:
    """Store a summary if reading it back gives the same one; return whether it is stored."""
    try:
        return store_cached_values(path, method_version(), change_counter, _summary_to_values(summary))
    except UnexpectedValue:
        return False


def _summary_to_values(summary: CampaignSummary) -> Iterator[tuple[str, Any]]:
    """Yield the summary without trials, and the trials of each treatment in parts, each with its name.

    Raises:
        UnexpectedValue: Reading a value back would not give the same one.
    """
    bare = replace(summary, treatments=tuple(replace(each, points=()) for each in summary.treatments))
    parts = [_split_points_into_bounded_parts(each.points) for each in summary.treatments]
    value = to_json_value(bare)
    if from_json_value(CampaignSummary, value) != bare:
        raise UnexpectedValue("the summary has no form in JSON")
    yield _SUMMARY, {_BARE_SUMMARY: value, _PART_COUNTS: [len(each) for each in parts]}
    for number, parts_of_treatment in enumerate(parts):
        for part, points in enumerate(parts_of_treatment):
            values = [to_json_value(point) for point in points]
            if _points_from_value(values) != list(points):
                raise UnexpectedValue("a trial has no form in JSON")
            yield _part_name(number, part), values


def _split_points_into_bounded_parts(points: Sequence[TrialPoint]) -> list[Sequence[TrialPoint]]:
    """Return the trials in parts of a bounded length."""
    parts: list[Sequence[TrialPoint]] = []
    first = values = 0
    for end, point in enumerate(points, 1):
        values += _VALUES_OF_A_TRIAL + len(point.time_series)
        if values >= _VALUES_OF_A_PART or end == len(points):
            parts.append(points[first:end])
            first, values = end, 0
    return parts


def _summary_from_values(values: Mapping[str, Any]) -> CampaignSummary | None:
    """Return the summary; None if it is absent or not whole."""
    try:
        stored = values[_SUMMARY]
        summary = from_json_value(CampaignSummary, stored[_BARE_SUMMARY])
        treatments = tuple(
            replace(treatment, points=tuple(_read_points(values, number, part_count)))
            for number, (treatment, part_count) in enumerate(
                zip(summary.treatments, stored[_PART_COUNTS], strict=True)
            )
        )
    except (KeyError, UnexpectedValue):
        return None
    return replace(summary, treatments=treatments)


def _read_points(values: Mapping[str, Any], treatment_number: int, part_count: int) -> Iterator[TrialPoint]:
    for part in range(part_count):
        yield from _points_from_value(values[_part_name(treatment_number, part)])


def _part_name(treatment_number: int, part: int) -> str:
    return f"{_SUMMARY} points {treatment_number} {part}"


def _points_from_value(points: Any) -> list[TrialPoint]:
    if not isinstance(points, list):
        raise UnexpectedValue("the trials of a treatment in the stored summary are not a list")
    return [from_json_value(TrialPoint, each) for each in points]
