"""The notes below a table: what a calibration came to is said once for each mode."""

from __future__ import annotations

from dataclasses import replace

from vnetbench.estimate.summary import CampaignSummary
from vnetbench.report.text.notes import campaign_notes


def calibrated(summary: CampaignSummary, *modes: str) -> list[str]:
    """The notes on calibrations where the treatments came to these modes."""
    treatments = tuple(
        replace(treatment, effective={"calibration": {"send_mode": mode}})
        for treatment, mode in zip(summary.treatments, modes, strict=False)
    )
    found = campaign_notes(replace(summary, treatments=treatments))
    return [note for note in found if note.startswith("send_mode = auto")]


def test_what_a_calibration_came_to_is_said_once_where_it_is_the_same_everywhere(
    jumbo: CampaignSummary,
) -> None:
    assert calibrated(jumbo, "copy", "copy", "copy") == ["send_mode = auto came to copy in every treatment"]


def test_each_mode_is_named_with_its_treatments(jumbo: CampaignSummary) -> None:
    found = calibrated(jumbo, "copy", "io_uring", "copy")
    assert [note.split(" in ")[0] for note in found] == [
        "send_mode = auto came to copy", "send_mode = auto came to io_uring"
    ]  # fmt: skip
    assert "2 treatments" in found[0] and "treatments" not in found[1]


def test_without_a_calibration_nothing_is_said_of_it(jumbo: CampaignSummary) -> None:
    assert not [note for note in campaign_notes(jumbo) if "auto" in note]
