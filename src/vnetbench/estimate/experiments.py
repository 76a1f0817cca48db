"""What was measured beside a campaign to prove a suspicion, and whether it belongs to the campaign."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from vnetbench.estimate.effects import compare_treatments
from vnetbench.estimate.matching import all_levels
from vnetbench.estimate.model import Experiment
from vnetbench.estimate.paired_ratios import combine_ratios
from vnetbench.estimate.summary import CampaignSummary

_SHOWN = 12
"""Characters of a study's hash that a person can compare."""


def estimate_experiments(proof: CampaignSummary) -> tuple[Experiment, ...]:
    """Each treatment of the file against its first one, which is the treatment as it was.

    One that has no ratio to it is absent: without a block in common, or of a metric that was below zero.
    """
    return tuple(_experiments(proof))


def has_same_study(proof: CampaignSummary, summary: CampaignSummary) -> bool:
    """Whether both were asked by the same study file, whatever `--set` changed."""
    return study_hash(proof) == study_hash(summary)


def study_hash(summary: CampaignSummary) -> str:
    """The first characters of the SHA-256 of the study file's text."""
    return hashlib.sha256(summary.study_text.encode()).hexdigest()[:_SHOWN]


def _experiments(proof: CampaignSummary) -> Iterator[Experiment]:
    if not proof.treatments:
        return
    base, *changed = proof.treatments
    metric, before = proof.main_metric, all_levels(proof, base)
    for treatment in changed:
        pair = compare_treatments(base, treatment, metric)
        if pair is None:
            continue
        levels = all_levels(proof, treatment)
        setting = {name: level for name, level in levels.items() if before.get(name) != level}
        ratio = combine_ratios([pair], proof.precision.confidence)
        yield Experiment(proof.path, before, setting, metric, ratio, pair.block_count)
