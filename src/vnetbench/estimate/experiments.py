"""Experiments that test a candidate cause: their ratios, and whether they belong to a campaign."""

from __future__ import annotations

import hashlib

from vnetbench.estimate.effects import compare_treatments
from vnetbench.estimate.matching import all_levels
from vnetbench.estimate.model import Experiment
from vnetbench.estimate.paired_ratios import combine_paired_ratios
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.results.records import mapping_or_empty

INTERVENTION_FACTS_SUBJECT = "interventions"
"""Subject of the facts of a proof file that say which resource each of its treatments changes."""
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
        resource, resource_ratio = _read_changed_resource_and_ratio(proof_summary, treatment.index)
        experiments.append(
            Experiment(
                proof_summary.path,
                base_levels,
                changed_levels,
                metric,
                ratio,
                pair.block_count,
                resource,
                resource_ratio,
            )
        )
    return tuple(experiments)


def _read_changed_resource_and_ratio(
    proof_summary: CampaignSummary, treatment_index: int
) -> tuple[str, float | None]:
    """Return the resource that a treatment changes, and by which ratio; empty for a file without them."""
    planned = mapping_or_empty(
        proof_summary.facts.get(INTERVENTION_FACTS_SUBJECT, {}).get(f"treatment_{treatment_index}")
    )
    ratio = planned.get("resource_ratio")
    return str(planned.get("resource", "")), float(ratio) if isinstance(ratio, int | float) else None


def has_same_study(proof_summary: CampaignSummary, summary: CampaignSummary) -> bool:
    """Return whether both ran the same study file, whatever `--set` changed."""
    return short_study_hash(proof_summary) == short_study_hash(summary)


def short_study_hash(summary: CampaignSummary) -> str:
    """Return the first characters of the SHA-256 of the study file's text."""
    return hashlib.sha256(summary.study_text.encode()).hexdigest()[:_STUDY_HASH_CHARACTERS]
