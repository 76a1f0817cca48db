"""Build the command of the experiment that would confirm a candidate cause.

The experiment repeats the treatment with one factor at two levels.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from vnetbench.errors import BenchError
from vnetbench.estimate.matching import all_levels
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.explain.model import Cause
from vnetbench.explain.rules import DOUBLED_LEVEL
from vnetbench.study.factors.cpu_lists import parse_cpu_list
from vnetbench.study.factors.registry import (
    FACTORS,
    backend_has_factor,
    format_level,
    format_levels,
    parse_level,
)
from vnetbench.study.factors.stream_counts import count_streams_per_direction
from vnetbench.study.file.load import parse_study
from vnetbench.study.model import Level

STUDY_PLACEHOLDER = "STUDY"
"""Replaces the study's path in a command if the campaign has no study file."""
LEVELS_THAT_REMOVE_SETTING = ("none",)
"""Levels that remove something a study may set, such as a shaper."""
_SENDER, _RECEIVER = 0, 1
_ENDPOINTS_BY_THREAD_SPREADING_CAUSE: Mapping[str, tuple[int, ...]] = {
    "sender_cpu": (_SENDER,), "receiver_cpu": (_RECEIVER,), "two_modes": (_SENDER, _RECEIVER),
}  # fmt: skip
"""Causes whose settings spread an endpoint's threads over CPUs. On one CPU these settings change nothing."""
_THREAD_CAUSES = ("sender_cpu", "receiver_cpu")
_ONE_THREAD_PER_STREAM = "auto"
"""Level of the factor `threads` with which each stream has its own thread."""
_SWITCH_LEVEL_BEFORE_NEW_LEVEL = {"on": "off", "off": "on"}
"""Level of a switch at its system default, before an experiment sets this new level."""


class ExperimentCommand(NamedTuple):
    """The levels that an experiment changes, and the command that runs it."""

    changed_levels: dict[str, Level]
    command: str


def build_experiment_command(
    summary: CampaignSummary, treatment: TreatmentSummary, cause: Cause
) -> ExperimentCommand:
    """Return the experiment that would confirm a cause in this treatment.

    The changed levels include `threads` if more streams need threads of their own. For imported trials the
    command is a sentence, because no study can rerun them. Both fields are empty if the testbed supports no
    setting of the cause, or if the treatment has the setting already.
    """
    present = all_levels(summary, treatment)
    for name, level in _applicable_settings(summary, present, cause):
        if summary.is_imported:
            before = f" instead of {format_level(name, present[name])}" if name in present else ""
            sentence = f"measure the treatment again with {name} = {format_level(name, level)}{before}"
            return ExperimentCommand({name: level}, sentence)
        thread_setting = _thread_per_stream_setting(present, cause, name)
        if command := _build_command(summary, treatment, present, cause, name, level, thread_setting):
            return ExperimentCommand({name: level, **thread_setting}, command)
    return ExperimentCommand({}, "")


def study_placeholder_note(command: str) -> str:
    """Explain STUDY_PLACEHOLDER; return an empty string if the command names a file."""
    if STUDY_PLACEHOLDER not in command.split():
        return ""
    extract = f"vnetbench show FILE --json | jq -r .study > {STUDY_PLACEHOLDER}"
    return f"{STUDY_PLACEHOLDER} is a file with the study's text. To write it, run: {extract}"


def level_before_setting(
    present_levels: Mapping[str, Level], factor_name: str, new_level: Level
) -> Level | None:
    """Return a factor's level in the treatment before it is set to `level`; None if it is unknown.

    A switch at its system default had the opposite level, because the treatment does not have `level` yet.
    """
    return present_levels.get(factor_name, _SWITCH_LEVEL_BEFORE_NEW_LEVEL.get(str(new_level)))


def _applicable_settings(
    summary: CampaignSummary, present_levels: Mapping[str, Level], cause: Cause
) -> Iterator[tuple[str, Level]]:
    """Yield the settings that testbed and workload support and that the treatment does not have yet."""
    if cause.name in _ENDPOINTS_BY_THREAD_SPREADING_CAUSE and not _can_use_several_cpus(
        present_levels, cause
    ):
        return
    for name, wanted in cause.experiment_levels.items():
        factor = FACTORS[name]
        if not factor.has_workload(summary.workload) or not backend_has_factor(summary.testbed_backend, name):
            continue
        if _would_new_streams_share_threads(present_levels, cause, name):
            name, wanted = "threads", _ONE_THREAD_PER_STREAM
        current = present_levels.get(name)
        if wanted == DOUBLED_LEVEL:
            if not isinstance(current, int) or (level := _parse_level_or_none(name, 2 * current)) is None:
                continue
        else:
            level = wanted
        if level != current and not (name == "cpus" and _has_no_shared_vm_cpus(present_levels)):
            yield name, level


def _would_new_streams_share_threads(present_levels: Mapping[str, Level], cause: Cause, name: str) -> bool:
    """Return whether additional streams would share the existing threads, because their number is fixed."""
    threads = present_levels.get("threads")
    return (
        _is_setting_for_more_threads(cause, name)
        and isinstance(threads, int)
        and threads < sum(count_streams_per_direction(present_levels))
    )


def _thread_per_stream_setting(
    present_levels: Mapping[str, Level], cause: Cause, name: str
) -> dict[str, Level]:
    """Return the `threads` level with which additional streams get threads of their own.

    It leaves the treatment's own streams unchanged: each has its own thread already.
    """
    is_fixed = isinstance(present_levels.get("threads"), int)
    return (
        {"threads": _ONE_THREAD_PER_STREAM} if is_fixed and _is_setting_for_more_threads(cause, name) else {}
    )


def _is_setting_for_more_threads(cause: Cause, name: str) -> bool:
    """Return whether the setting aims at more threads. For other causes the same factors add flows."""
    return cause.name in _THREAD_CAUSES and name in ("streams", "connections")


def _can_use_several_cpus(present_levels: Mapping[str, Level], cause: Cause) -> bool:
    """Return whether an affected endpoint may use several CPUs, or its number of CPUs is unknown."""
    endpoint_vms = {"forward": (0, 1), "reverse": (1, 0)}.get(str(present_levels.get("direction", "forward")))
    vms = (
        {endpoint_vms[end] for end in _ENDPOINTS_BY_THREAD_SPREADING_CAUSE[cause.name]}
        if endpoint_vms
        else {0, 1}
    )
    return any(
        all(count > 1 for count in _configured_cpu_counts_of_vm_threads(vm, present_levels, cause))
        for vm in vms
    )


def _configured_cpu_counts_of_vm_threads(
    vm_index_in_pair: int, present_levels: Mapping[str, Level], cause: Cause
) -> Iterator[int]:
    """Yield the number of CPUs for the threads of a pair's first (0) or second (1) VM, per factor."""
    for name in ("cpus", "thread_cpus"):
        level = str(present_levels.get(name, ""))
        if level.endswith(" each"):
            yield int(level.split()[0])
        elif level[:1].isdigit() and name not in cause.experiment_levels:
            yield len(parse_cpu_list(level.split("/")[-vm_index_in_pair]))
    guests = {"guest-to-guest": (0, 1), "guest-to-host": (0,)}.get(str(present_levels.get("role")), ())
    if "vcpus" in present_levels and vm_index_in_pair in guests:
        yield int(present_levels["vcpus"])


def _has_no_shared_vm_cpus(present_levels: Mapping[str, Level]) -> bool:
    """Return whether no two VMs share a CPU. The setting `1 each` would then change nothing but the CPUs."""
    level = str(present_levels.get("cpus"))
    if level.endswith(" each"):
        return True
    first, separator, second = level.partition("/")
    if not separator or present_levels.get("pairs", 1) != 1:
        return False
    return set(parse_cpu_list(first)).isdisjoint(parse_cpu_list(second))


def _parse_level_or_none(name: str, raw: object) -> Level | None:
    try:
        return parse_level(name, raw)
    except BenchError:
        return None


def _build_command(
    summary: CampaignSummary,
    treatment: TreatmentSummary,
    present_levels: Mapping[str, Level],
    cause: Cause,
    factor_name: str,
    level: Level,
    thread_setting: Mapping[str, Level],
) -> str:
    """Return the command that compares both levels; empty if no valid study has them."""
    override_keys = [override.partition("=")[0].strip() for override in summary.overrides]
    levels: dict[str, tuple[Level, ...]] = {
        factor.name: (treatment.factors[factor.name],)
        for factor in summary.factors
        if factor.name in treatment.factors and (len(factor.levels) > 1 or factor.name in override_keys)
    }
    baseline = level_before_setting(present_levels, factor_name, level)
    if baseline is None and level in LEVELS_THAT_REMOVE_SETTING:
        return ""  # a new testbed has this level already
    levels[factor_name] = (level,) if baseline is None else (baseline, level)
    levels |= {factor: (factor_level,) for factor, factor_level in thread_setting.items()}
    settings = [
        override for override, key in zip(summary.overrides, override_keys, strict=True) if key not in FACTORS
    ]
    settings += [f"{key}={format_levels(key, factor_levels)}" for key, factor_levels in levels.items()]
    if not _is_valid_with_exact_levels(summary, settings, levels):
        return ""
    path = summary.study_path or STUDY_PLACEHOLDER
    output = f"{Path(path).stem}-{cause.name}.vnb"
    words = ["vnetbench", "run", path, *(word for each in settings for word in ("--set", each)), "-o", output]
    return shlex.join(words)


def _is_valid_with_exact_levels(
    summary: CampaignSummary, settings: list[str], levels: Mapping[str, tuple[Level, ...]]
) -> bool:
    """Return whether the changed study is valid and has exactly these levels."""
    try:
        study = parse_study(summary.study_text, summary.study_path, settings)
    except BenchError:
        return False
    study_levels = {factor.name: factor.levels for factor in study.factors}
    return all(study_levels[name] == factor_levels for name, factor_levels in levels.items())
