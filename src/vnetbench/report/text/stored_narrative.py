"""Narratives that are kept in the results file, so that the next command need not explain again."""

from __future__ import annotations

from pathlib import Path

from vnetbench.dataclass_json import UnexpectedValue, from_json_value, to_json_value
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.method_version import method_version
from vnetbench.report.text.narrative_model import Narrative
from vnetbench.results.cache_table import read_cached_values, store_cached_values

_NARRATIVE_CACHE_NAME = "narrative"


def read_or_build_narrative(summary: CampaignSummary) -> Narrative:
    """Return the narrative of a campaign, from its results file if it is stored there and still valid.

    A narrative that had to be built is stored, if the summary is. With experiments of a second file, it is
    always built.
    """
    if summary.change_counter is None or summary.experiments or summary.proof_file_note:
        return _build_narrative(summary)
    path = Path(summary.path)
    try:
        stored = read_cached_values(path, method_version(), _NARRATIVE_CACHE_NAME)[_NARRATIVE_CACHE_NAME]
        return from_json_value(Narrative, stored)
    except (KeyError, UnexpectedValue):
        narrative = _build_narrative(summary)
    _store_narrative(path, summary.change_counter, narrative)
    return narrative


def _build_narrative(summary: CampaignSummary) -> Narrative:
    from vnetbench.report.text.narrative import build_narrative

    return build_narrative(summary)


def _store_narrative(path: Path, counter: int, narrative: Narrative) -> None:
    """Store a narrative if reading it back gives the same one."""
    try:
        value = to_json_value(narrative)
        if from_json_value(Narrative, value) == narrative:
            store_cached_values(path, method_version(), counter, [(_NARRATIVE_CACHE_NAME, value)])
    except UnexpectedValue:
        pass
