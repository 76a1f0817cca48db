"""Synthetic campaigns whose trials say where the time goes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary

Shares = Mapping[str, float]


def with_time_shares(
    summary: CampaignSummary, shares_of_treatment: Callable[[TreatmentSummary], Shares]
) -> CampaignSummary:
    """Return the campaign with these time shares (0 to 1) as evidence in each trial of a treatment."""
    return replace(
        summary,
        treatments=tuple(
            replace(
                treatment,
                points=tuple(
                    replace(
                        point,
                        evidence={
                            **point.evidence,
                            **{
                                f"time_{name}_percent": 100 * share
                                for name, share in shares_of_treatment(treatment).items()
                            },
                        },
                    )
                    for point in treatment.points
                ),
            )
            for treatment in summary.treatments
        ),
    )


def shares_by_streams(treatment: TreatmentSummary) -> Shares:
    """Return shares of a sender that waits for its own CPUs with more streams, with a little of all else."""
    streams = treatment.factors.get("streams", 1)
    running = 0.9 / float(streams) if isinstance(streams, int | float) else 0.9
    return {
        "sender_running": running,
        "sender_load": 0.94 - running,
        "receiver_running": 0.03,
        "receiver_packets": 0.02,
        "round_trip": 0.01,
    }
