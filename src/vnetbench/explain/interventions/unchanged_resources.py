"""Interventions that did not change the resource of their setting, as the trials of the series show.

A larger MTU does not make segments larger where a firewall clamps their size, or where a route has a smaller
MTU. Such a change says nothing about the resource, so it refutes no cause.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from vnetbench.estimate.model import Experiment
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.explain.interventions.planner import BASE_TREATMENT_INDEX

_METRICS_BY_FACTOR: Mapping[str, tuple[str, ...]] = {
    "mtu": ("mss_bytes",),
    "socket_buffer": ("send_buffer_bytes", "receive_buffer_bytes"),
}
"""Factor to the evidence metrics of which at least one changes with it."""
_UNCHANGED_SHARE = 0.05
"""Share of a median by which it may differ without a change."""


def mark_unchanged_resources(
    experiments: Sequence[Experiment], proof_summary: CampaignSummary
) -> tuple[Experiment, ...]:
    """Return the experiments; those that left their resource as it was are marked and name no resource."""
    if not proof_summary.treatments:
        return tuple(experiments)
    base, *changed = proof_summary.treatments
    assert base.index == BASE_TREATMENT_INDEX
    return tuple(
        each.without_effect_on_resource()
        if any(_has_levels(treatment, each) and _is_unchanged(each, base, treatment) for treatment in changed)
        else each
        for each in experiments
    )


def _has_levels(treatment: TreatmentSummary, experiment: Experiment) -> bool:
    levels = {**experiment.base_levels, **experiment.changed_levels}
    return all(levels.get(name, level) == level for name, level in treatment.factors.items())


def _is_unchanged(experiment: Experiment, base: TreatmentSummary, changed: TreatmentSummary) -> bool:
    """Return whether the change moved the median of no metric of the only changed factor.

    Medians, so that one odd trial hides no change and more trials make none harder to see.
    """
    if len(experiment.changed_levels) != 1:
        return False
    (factor,) = experiment.changed_levels
    pairs = [
        (base.evidence_values(metric), changed.evidence_values(metric))
        for metric in _METRICS_BY_FACTOR.get(factor, ())
    ]
    known = [(before, after) for before, after in pairs if before and after]
    return bool(known) and all(
        abs(median(after) - median(before)) <= _UNCHANGED_SHARE * median(before) for before, after in known
    )
