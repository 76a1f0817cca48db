"""Registry of all factors: look one up, parse and format its levels, and fill in defaults."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from vnetbench.study.factors.disruption_factors import DISRUPTION_FACTORS
from vnetbench.study.factors.factor import Factor
from vnetbench.study.factors.frame_factors import (
    FRAME_FACTORS,
    FRAME_LOAD,
    FRAME_SIZE,
    compute_largest_packet_bytes,
    compute_smallest_frame_bytes,
)
from vnetbench.study.factors.guest_factors import GUEST_FACTORS
from vnetbench.study.factors.imported_factors import LABEL_PREFIX, is_label, make_label_factor
from vnetbench.study.factors.level_expressions import parse_levels
from vnetbench.study.factors.load_factors import LOAD_FACTORS, REQUEST_OR_DATAGRAM_RATE
from vnetbench.study.factors.team_factors import FACTOR_BY_TEAM_KEY, TEAM_HASH_POLICY
from vnetbench.study.factors.testbed_factors import MTU, TESTBED_FACTORS
from vnetbench.study.factors.vsphere_factors import VSPHERE_FACTORS
from vnetbench.study.labs import EXISTING_MACHINE_LABS, IMPORTED_LAB, IPERF3_BACKEND, NETNS
from vnetbench.study.model import Level
from vnetbench.study.problems import WrongValue, suggest_fix
from vnetbench.study.workloads import TCP_STREAM, WORKLOADS

FACTORS: Mapping[str, Factor] = {
    factor.name: factor
    for factor in (
        *LOAD_FACTORS,
        *DISRUPTION_FACTORS,
        *FRAME_FACTORS,
        *TESTBED_FACTORS,
        *FACTOR_BY_TEAM_KEY.values(),
        TEAM_HASH_POLICY,
        *GUEST_FACTORS,
        *VSPHERE_FACTORS,
    )
}
"""All factors by name, in the order of the reference page."""


def find_factor_or_label(factor_name: str) -> Factor | None:
    """Return the factor or label of that name; None for a name that a report makes, such as `changed`."""
    return FACTORS.get(factor_name) or make_label_factor(factor_name)


def require_factor_or_label(factor_name: str) -> Factor:
    """Return the factor or label of that name; raises WrongValue with the nearest name."""
    if (factor := find_factor_or_label(factor_name)) is not None:
        return factor
    if is_label(factor_name):
        fix = f"write {LABEL_PREFIX} followed by at most 40 letters, digits and underscores"
        raise WrongValue(f'"{factor_name[:60]}" is not a label', fix=fix)
    fix = suggest_fix(factor_name, FACTORS, otherwise=f"use one of these factors: {', '.join(FACTORS)}")
    raise WrongValue(f'"{factor_name[:60]}" is not a factor', fix=fix)


def parse_level(factor_name: str, raw: object) -> Level:
    """Return the canonical level of a raw TOML value or a text; raises BenchError."""
    return require_factor_or_label(factor_name).value_type.parse(raw)


def format_level(factor_name: str, level: Level) -> str:
    """Return a level as a study writes it: "64 KiB", "10 Gbit/s", "9000"; raises WrongValue."""
    return require_factor_or_label(factor_name).value_type.format(level)


def format_levels(factor_name: str, levels: Sequence[Level]) -> str:
    """Return levels as `--set` takes them: "1500,9000", or a TOML list if commas cannot separate them."""
    value_type = require_factor_or_label(factor_name).value_type
    texts = [value_type.format(level) for level in levels]
    joined = ",".join(texts)
    if tuple(level for _, level in parse_levels(value_type, joined).levels_with_positions) == tuple(levels):
        return joined
    return f"[{', '.join(map(json.dumps, texts))}]"


def backend_has_factor(testbed_backend: str, factor_name: str) -> bool:
    """Return whether a testbed of this backend (`TestbedSpec.backend`) can set the factor."""
    if testbed_backend == IMPORTED_LAB:
        return True
    factor = require_factor_or_label(factor_name)
    return (
        factor.works_with_iperf3_server_as_peer
        if testbed_backend == IPERF3_BACKEND
        else testbed_backend in factor.labs
    )


def complete_levels(
    levels: Mapping[str, Level], workload: str = TCP_STREAM, testbed_backend: str = NETNS
) -> dict[str, Level]:
    """Return a treatment's levels with the defaults of its workload and testbed for all other factors.

    Frame workloads get the smallest frame, and an MTU that fits the largest frame, if the treatment names
    neither. Imported results get no defaults.
    """
    if testbed_backend == IMPORTED_LAB:
        return dict(levels)
    completed = {**_collect_default_levels(workload, testbed_backend), **levels}
    if WORKLOADS[workload].carries_frames:
        completed[FRAME_SIZE.name] = levels.get(FRAME_SIZE.name, compute_smallest_frame_bytes(completed))
        if MTU.is_present_in(completed) and not MTU.is_present_in(levels):
            completed[MTU.name] = max(int(completed[MTU.name]), compute_largest_packet_bytes(completed))
    return completed


def _collect_default_levels(workload: str, testbed_backend: str) -> dict[str, Level]:
    # Existing machines keep their own settings unless the study names them.
    is_existing = testbed_backend in EXISTING_MACHINE_LABS
    factors = (*LOAD_FACTORS, *FRAME_FACTORS) if is_existing else FACTORS.values()
    return {
        factor.name: default
        for factor in factors
        if factor.has_workload(workload)
        and backend_has_factor(testbed_backend, factor.name)
        and (default := factor.workload_defaults.get(workload, factor.default)) is not None
    }


def check_factor_workload(factor_name: str, workload: str) -> None:
    """Raise WrongValue with the nearest factor if the factor does not apply to the workload."""
    if require_factor_or_label(factor_name).has_workload(workload):
        return
    choices = [factor.name for factor in FACTORS.values() if factor.has_workload(workload)]
    equivalent = next(
        (other for other in _find_equivalents_in_other_workloads(factor_name) if other in choices), None
    )
    fix = (
        f'did you mean "{equivalent}"?'
        if equivalent
        else suggest_fix(
            factor_name, choices, otherwise=f"use one of the workload's factors: {', '.join(choices)}"
        )
    )
    raise WrongValue(f"{factor_name} is not a factor of the workload {workload}", fix=fix)


def _find_equivalents_in_other_workloads(factor_name: str) -> list[str]:
    """Return the factors of other workloads that take the place of a factor, most likely first."""
    roles: tuple[list[str], ...] = (
        [workload.size_factor for workload in WORKLOADS.values()],
        [workload.count_factor for workload in WORKLOADS.values()],
        [REQUEST_OR_DATAGRAM_RATE.name, FRAME_LOAD.name],
    )
    return [
        other
        for names in roles
        if factor_name in names
        for other in dict.fromkeys(names)
        if other != factor_name
    ]
