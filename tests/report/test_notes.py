"""Notes below a table: the send mode that a calibration selected."""

from __future__ import annotations

from dataclasses import replace

from vnetbench.estimate.summary import CampaignSummary
from vnetbench.report.text.notes import campaign_notes


def send_mode_notes(summary: CampaignSummary, *selected_modes: str) -> list[str]:
    """Return the notes on send modes after calibrations that selected these modes."""
    treatments = tuple(
        replace(treatment, effective={"calibration": {"send_mode": mode}})
        for treatment, mode in zip(summary.treatments, selected_modes, strict=False)
    )
    notes = campaign_notes(replace(summary, treatments=treatments))
    return [note for note in notes if note.startswith("send_mode = auto")]


def test_a_send_mode_that_all_treatments_share_has_one_note(jumbo: CampaignSummary) -> None:
    notes = send_mode_notes(jumbo, "copy", "copy", "copy")
    assert notes == ["send_mode = auto selected copy in every treatment"]


def test_each_send_mode_is_listed_with_its_treatments(jumbo: CampaignSummary) -> None:
    notes = send_mode_notes(jumbo, "copy", "io_uring", "copy")
    assert [note.split(" in ")[0] for note in notes] == [
        "send_mode = auto selected copy", "send_mode = auto selected io_uring"
    ]  # fmt: skip
    assert "2 treatments" in notes[0] and "treatments" not in notes[1]


def test_a_campaign_without_calibration_has_no_send_mode_note(jumbo: CampaignSummary) -> None:
    assert not [note for note in campaign_notes(jumbo) if "auto" in note]
