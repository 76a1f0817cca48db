"""Experiments that test a candidate cause: their ratios, and whether they belong to a campaign."""

from __future__ import annotations

import hashlib

from vnetbench.estimate.effects import compare_treatments
from vnetbench.estimate.matching import all_levels
from vnetbench.estimate.model import Experiment
from vnetbench.estimate.paired_ratios import combine_paired_ratios
from vnetbench.estimate.summary import CampaignSummary

_STUDY_HASH_CHARACTERS = 12
"""Enough characters of a study's hash for a person to compare."""


def estimate_experiments(proof_summary: CampaignSummary) -> tuple[Experiment, ...]:
    """Return each treatment of an experiment file compared with its first, unchanged treatment.

    A treatment is absent if it shares no block with the first, or if the metric is negative.
    """
    if not proof_summary.treatments:
        return ()
    base, *changed = proof_summary.treatments
    metric, base_levels = proof_summary.deciding_metric, all_levels(proof_summary, base)
    experiments = []
    for treatment in changed:
        pair = compare_treatments(base, treatment, metric)
        if pair is None:
            continue
        levels = all_levels(proof_summary, treatment)
        changed_levels = {name: level for name, level in levels.items() if base_levels.get(name) != level}
        ratio = combine_paired_ratios([pair], proof_summary.required_precision.confidence)
        experiments.append(
            Experiment(proof_summary.path, base_levels, changed_levels, metric, ratio, pair.block_count)
        )
    return tuple(experiments)


def has_same_study(proof_summary: CampaignSummary, summary: CampaignSummary) -> bool:
    """Return whether both ran the same study file, whatever `--set` changed."""
    return short_study_hash(proof_summary) == short_study_hash(summary)


def short_study_hash(summary: CampaignSummary) -> str:
    """Return the first characters of the SHA-256 of the study file's text."""
    return hashlib.sha256(summary.study_text.encode()).hexdigest()[:_STUDY_HASH_CHARACTERS]
