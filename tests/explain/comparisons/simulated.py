"""Simulated campaigns with a known model: a function of the levels, block effects and noise."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from vnetbench.estimate.median import estimate_median
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary, TrialPoint
from vnetbench.study.model import ALL_COMBINATIONS, FactorLevels, Level, Precision, Timing

GOODPUT = "goodput_bps"
Truth = Callable[[Mapping[str, Level]], float]
Evidence = Callable[[np.random.Generator, int, float], Mapping[str, float]]


def treatment(
    index: int,
    factors: Mapping[str, Level],
    values: Sequence[float],
    evidence: Sequence[Mapping[str, float]] | None = None,
    steady: Sequence[bool] | None = None,
) -> TreatmentSummary:
    """Return a treatment with one value per block."""
    count = len(values)
    points = tuple(
        TrialPoint(
            trial_id=1 + index + 100 * block,
            block=block,
            since_campaign_start_s=float(block),
            duration_s=1.0,
            warmup_s=0.0,
            has_steady_state=True if steady is None else steady[block],
            values={GOODPUT: values[block]},
            evidence={} if evidence is None else evidence[block],
        )
        for block in range(count)
    )
    metrics = {GOODPUT: estimate_median(values, 0.95)} if count else {}
    return TreatmentSummary(index, factors, {}, "precision" if count else "refused", metrics, points)


def campaign(
    factors: Sequence[FactorLevels],
    treatments: Sequence[TreatmentSummary],
    *,
    combine: str = ALL_COMBINATIONS,
    half_width: float = 0.03,
) -> CampaignSummary:
    return CampaignSummary(
        path="a.vnb", title="", question="", workload="tcp_stream", study_text="", overrides=(), seed=0,
        status="finished", started_at="", elapsed_s=0.0, required_precision=Precision(half_width=half_width),
        timing=Timing(), factors=tuple(factors), treatments=tuple(treatments),
        level_combination_method=combine,
    )  # fmt: skip


def simulated(
    random: np.random.Generator,
    factors: Mapping[str, Sequence[Level]],
    truth: Truth,
    *,
    blocks: int = 9,
    noise: float = 0.03,
    of_blocks: float = 0.05,
    without: Callable[[Mapping[str, Level]], bool] = lambda levels: False,
    half_width: float = 0.03,
) -> CampaignSummary:
    """Return a campaign of all combinations of levels. Those in `without` are refused."""
    names = list(factors)
    common = random.normal(0, of_blocks, blocks)
    treatments = []
    for index, levels in enumerate(itertools.product(*factors.values())):
        own = dict(zip(names, levels, strict=True))
        values = truth(own) * np.exp(common + random.normal(0, noise, blocks))
        treatments.append(treatment(index, own, [] if without(own) else values.tolist()))
    listed = [FactorLevels(name, tuple(levels)) for name, levels in factors.items()]
    return campaign(listed, treatments, half_width=half_width)
