"""The one command that would prove a suspicion: the treatment again, with one factor at two levels."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from vnetbench.errors import BenchError
from vnetbench.estimate.matching import all_levels
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.explain.model import Cause
from vnetbench.explain.rules import TWICE
from vnetbench.study.factors.cpu_lists import parse_cpu_list
from vnetbench.study.factors.directions import streams_per_direction
from vnetbench.study.factors.registry import FACTORS, format_level, format_levels, has_factor_on, parse_level
from vnetbench.study.file.load import parse_study
from vnetbench.study.model import Level

STUDY_PLACEHOLDER = "STUDY"
"""Stands in a command for the study of a campaign that was not run from a file."""
UNSET_LEVELS = ("none",)
"""Levels that take away what a study may set, such as a shaper."""
_SENDER, _RECEIVER = 0, 1
_CPU_CAUSE_ENDPOINTS: Mapping[str, tuple[int, ...]] = {
    "sender_cpu": (_SENDER,), "receiver_cpu": (_RECEIVER,), "two_modes": (_SENDER, _RECEIVER),
}  # fmt: skip
"""Causes whose settings let an end's threads run on more CPUs: where it has one, they change nothing."""
_THREAD_CAUSES = ("sender_cpu", "receiver_cpu")
_THREAD_PER_STREAM = "auto"
_OPPOSITES: Mapping[Level, Level] = {"on": "off", "off": "on"}


def experiment_command(
    summary: CampaignSummary, treatment: TreatmentSummary, cause: Cause
) -> tuple[dict[str, Level], str]:
    """The factor with the level that would prove a cause in this treatment, and the command that does it.

    With more streams that need threads of their own the level of `threads` too.

    Of imported trials the command is a sentence: nobody can run them again by a study. Both are empty where
    no setting of the cause can be had here, or the treatment has it already.
    """
    present = all_levels(summary, treatment)
    for name, level in _applicable_settings(summary, present, cause):
        if summary.is_imported:
            told = f" instead of {format_level(name, present[name])}" if name in present else ""
            return {name: level}, f"measure it again with {name} = {format_level(name, level)}{told}"
        along = _thread_setting(present, cause, name)
        if command := _build_command(summary, treatment, present, cause, name, level, along):
            return {name: level, **along}, command
    return {}, ""


def study_placeholder_note(command: str) -> str:
    """What a command's word for the study stands for; empty where it names a file."""
    if STUDY_PLACEHOLDER not in command.split():
        return ""
    how = f"vnetbench show FILE --json | jq -r .study > {STUDY_PLACEHOLDER}"
    return f"{STUDY_PLACEHOLDER} is a file with the study's text: {how}"


def baseline_level(present: Mapping[str, Level], name: str, level: Level) -> Level | None:
    """What a factor was in a treatment that is to be tried at `level`; None where nobody knows.

    Of a switch that was left as the system has it the other of its two.
    """
    return present.get(name, _OPPOSITES.get(level))


def _applicable_settings(
    summary: CampaignSummary, present: Mapping[str, Level], cause: Cause
) -> Iterator[tuple[str, Level]]:
    """The settings of the rule that testbed and workload have, and that the treatment does not have yet."""
    if cause.name in _CPU_CAUSE_ENDPOINTS and not _has_several_cpus(present, cause):
        return
    for name, told in cause.setting.items():
        if summary.workload not in FACTORS[name].workloads or not has_factor_on(summary.kind, name):
            continue
        if _would_share_threads(present, cause, name):
            name, told = "threads", _THREAD_PER_STREAM
        now = present.get(name)
        if told == TWICE:
            if not isinstance(now, int) or (level := _parse_level_or_none(name, 2 * now)) is None:
                continue
        else:
            level = told
        if level != now and not (name == "cpus" and _has_exclusive_cpus(present)):
            yield name, level


def _would_share_threads(present: Mapping[str, Level], cause: Cause, name: str) -> bool:
    """Whether streams share a fixed number of threads already: more streams would be dealt out to these."""
    threads = present.get("threads")
    return (
        _is_thread_setting(cause, name) and isinstance(threads, int) and threads < sum(streams_per_direction(present))
    )


def _thread_setting(present: Mapping[str, Level], cause: Cause, name: str) -> dict[str, Level]:
    """What more streams need to be more threads, where each has its own and their number is fixed.

    The treatment as it was is the same with it.
    """
    is_fixed = isinstance(present.get("threads"), int)
    return {"threads": _THREAD_PER_STREAM} if is_fixed and _is_thread_setting(cause, name) else {}


def _is_thread_setting(cause: Cause, name: str) -> bool:
    """Whether more of this factor stands for more threads: of other causes it stands for more flows."""
    return cause.name in _THREAD_CAUSES and name in ("streams", "connections")


def _has_several_cpus(present: Mapping[str, Level], cause: Cause) -> bool:
    """Whether one of the ends that it is about may use more than one CPU, or nobody said how many."""
    ways = {"forward": (0, 1), "reverse": (1, 0)}.get(str(present.get("direction", "forward")))
    vms = {ways[end] for end in _CPU_CAUSE_ENDPOINTS[cause.name]} if ways else {0, 1}
    return any(all(count > 1 for count in _cpu_counts(vm, present, cause)) for vm in vms)


def _cpu_counts(vm: int, present: Mapping[str, Level], cause: Cause) -> Iterator[int]:
    """How many CPUs the threads of a pair's first (0) or second (1) VM have, by each factor that says so."""
    for name in ("cpus", "thread_cpus"):
        level = str(present.get(name, ""))
        if level.endswith(" each"):
            yield int(level.split()[0])
        elif level[:1].isdigit() and name not in cause.setting:
            yield len(parse_cpu_list(level.split("/")[-vm]))
    guests = {"guest-to-guest": (0, 1), "guest-to-host": (0,)}.get(str(present.get("role")), ())
    if "vcpus" in present and vm in guests:
        yield int(present["vcpus"])


def _has_exclusive_cpus(present: Mapping[str, Level]) -> bool:
    """Whether no VM has a CPU of another: `1 each` would then be the same, on other CPUs at most."""
    level = str(present.get("cpus"))
    if level.endswith(" each"):
        return True
    first, is_pair, second = level.partition("/")
    if not is_pair or present.get("pairs", 1) != 1:
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
    present: Mapping[str, Level],
    cause: Cause,
    name: str,
    level: Level,
    along: Mapping[str, Level],
) -> str:
    changed = [override.partition("=")[0].strip() for override in summary.overrides]
    levels: dict[str, tuple[Level, ...]] = {
        factor.name: (treatment.factors[factor.name],)
        for factor in summary.factors
        if factor.name in treatment.factors and (len(factor.levels) > 1 or factor.name in changed)
    }
    was = baseline_level(present, name, level)
    if was is None and level in UNSET_LEVELS:
        return ""  # of a testbed that is raised anew it holds already
    levels[name] = (level,) if was is None else (was, level)
    levels |= {other: (of_it,) for other, of_it in along.items()}
    settings = [
        override for override, key in zip(summary.overrides, changed, strict=True) if key not in FACTORS
    ]
    settings += [f"{key}={format_levels(key, of)}" for key, of in levels.items()]
    if not _is_valid_study(summary, settings, levels):
        return ""
    path = summary.study_path or STUDY_PLACEHOLDER
    output = f"{Path(path).stem}-{cause.name}.vnb"
    words = ["vnetbench", "run", path, *(word for each in settings for word in ("--set", each)), "-o", output]
    return shlex.join(words)


def _is_valid_study(summary: CampaignSummary, settings: list[str], levels: Mapping[str, tuple[Level, ...]]) -> bool:
    """Whether the study, so changed, is one that can be run, with these levels."""
    try:
        study = parse_study(summary.study_text, summary.study_path, settings)
    except BenchError:
        return False
    found = {factor.name: factor.levels for factor in study.factors}
    return all(found[name] == of_it for name, of_it in levels.items())
