"""The ratio of CPU time that an intervention left, measured in the series itself.

Other programs may use more or less of the CPUs than in the campaign before. The unchanged treatment ran in
the same blocks, so its trials show what the VMs could use meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vnetbench.estimate.model import Experiment
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.explain.interventions.planner import BASE_TREATMENT_INDEX
from vnetbench.explain.interventions.treatment_state import read_treatment_state
from vnetbench.study.factors.registry import parse_level

CPU_RESOURCES = ("sender_cpu_time", "receiver_cpu_time", "vm_cpu_time")


def replace_cpu_ratios_with_measured(
    experiments: Sequence[Experiment], proof_summary: CampaignSummary
) -> tuple[Experiment, ...]:
    """Return the experiments; those that took CPU time have the ratio that the series measured.

    An experiment has no resource if its quota took nothing away: it then shows nothing about CPU time.
    """
    if not proof_summary.treatments or not proof_summary.treatments[BASE_TREATMENT_INDEX].points:
        return tuple(experiments)
    state = read_treatment_state(proof_summary, proof_summary.treatments[BASE_TREATMENT_INDEX])
    capacity = state.cpu_capacity_by_vm
    return tuple(
        each if capacity is None else _replace_cpu_ratio_with_measured(each, capacity) for each in experiments
    )


def _replace_cpu_ratio_with_measured(
    experiment: Experiment, cpu_capacity_by_vm: tuple[float, float]
) -> Experiment:
    quotas = str(experiment.changed_levels.get("cpu_quota", "")).split("/")
    if experiment.resource not in CPU_RESOURCES or len(quotas) != 2:
        return experiment
    levels = [parse_level("cpu_quota", text) for text in quotas]
    ratios = [
        level / own
        for level, own in zip(levels, cpu_capacity_by_vm, strict=True)
        if isinstance(level, int | float)
    ]
    ratio = min(ratios, default=1.0)
    if ratio >= 1:
        return experiment.without_effect_on_resource()
    return replace(experiment, resource_ratio=ratio)
