"""Figures of a trial that tell causes apart; each is a function of its counters (`FIGURES` names them)."""

from __future__ import annotations

from collections.abc import Mapping

from vnetbench.estimate.evidence.calls import CALL_FIGURES, call_evidence
from vnetbench.estimate.evidence.trial_data import Case
from vnetbench.estimate.evidence.cpu import CPU_FIGURES, cpu_evidence
from vnetbench.estimate.evidence.metric import Figure
from vnetbench.estimate.evidence.frames import FRAME_FIGURES, frame_evidence
from vnetbench.estimate.evidence.instrument import INSTRUMENT_FIGURES, instrument_evidence
from vnetbench.estimate.evidence.links import LINK_FIGURES, link_evidence
from vnetbench.estimate.evidence.packets import PACKET_FIGURES, packet_evidence
from vnetbench.estimate.evidence.placement import PLACEMENT_FIGURES, placement_evidence
from vnetbench.estimate.evidence.cpu_sets import PLACE_FIGURES, place_evidence
from vnetbench.estimate.evidence.window import WINDOW_FIGURES, window_evidence

FAMILIES: Mapping[str, tuple[Figure, ...]] = {
    "cpu": (*CPU_FIGURES, *PLACE_FIGURES),
    "window": (*WINDOW_FIGURES, *CALL_FIGURES),
    "packets": PACKET_FIGURES,
    "links": LINK_FIGURES,
    "frames": FRAME_FIGURES,
    "placement": PLACEMENT_FIGURES,
    "instrument": INSTRUMENT_FIGURES,
}
FIGURES: dict[str, Figure] = {figure.name: figure for family in FAMILIES.values() for figure in family}


def evidence_of(case: Case) -> dict[str, float]:
    """Every figure of a trial that its counters tell."""
    found = {
        **cpu_evidence(case),
        **place_evidence(case),
        **window_evidence(case),
        **call_evidence(case),
        **packet_evidence(case),
        **link_evidence(case),
        **frame_evidence(case),
        **placement_evidence(case),
        **instrument_evidence(case),
    }
    return {name: float(value) for name, value in found.items() if value is not None}
