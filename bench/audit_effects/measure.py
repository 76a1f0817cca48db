"""Runs the campaigns of a case, and estimates the ratio with / without the fault."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.audit_effects.cases import XDP_OBJECT, Command, CommandFault, EffectCase, LevelFault
from bench.redteam.causes.common import commands
from bench.redteam.model import Cause, Run, Shape, tcp
from bench.redteam.runner import inject_and_wait, make_label
from bench.redteam.target import die_with_parent
from vnetbench.estimate.model import Ratio
from vnetbench.estimate.paired_ratios import combine_paired_ratios, estimate_paired_ratio
from vnetbench.lab.guest.hardware import KVM

METRIC = "goodput_bps"
CONFIDENCE = 0.95
_VNETBENCH = (sys.executable, "-m", "vnetbench")
_XDP_SOURCE = '__attribute__((section("xdp"), used)) int pass(void *packet) { return 2 /* XDP_PASS */; }\n'
_TIME_LIMIT = "25 min"
RUN_TIMEOUT_S = 600.0
"""Time that one campaign with commands may take, also on a machine that others load."""
DEFAULT_FACTOR = "streams = 1\n"
"""For studies without a varied factor, since a study needs one."""


class EffectNotMeasured(Exception):
    """A campaign failed, or the fault could not be made."""


@dataclass(frozen=True)
class MeasuredEffect:
    """The effect of a case's fault on its goodput."""

    case: EffectCase
    ratio: Ratio
    """With the fault / without it, over the blocks."""
    without_bps: float
    with_bps: float
    """Medians over the blocks."""
    block_count: int
    date: str
    """Day of the last campaign, in ISO form."""

    @property
    def ratio_text(self) -> str:
        """The ratio with its interval, such as `×0.41 [0.38, 0.44]`."""
        if self.ratio.low is None or self.ratio.high is None:
            return f"×{self.ratio.value:.3g} [?, ?]"
        return f"×{self.ratio.value:.3g} [{self.ratio.low:.3g}, {self.ratio.high:.3g}]"


def measure_effect(case: EffectCase, folder: Path) -> MeasuredEffect:
    """Measure a case, or read what the folder has of it already.

    Raises:
        EffectNotMeasured: with the reason.
    """
    measure = _measure_levels if isinstance(case.fault, LevelFault) else _measure_commands
    without, with_fault, date = measure(case, folder)
    paired = estimate_paired_ratio(without, with_fault)
    if paired is None:
        raise EffectNotMeasured("some blocks carried no data")
    return MeasuredEffect(
        case,
        combine_paired_ratios([paired], CONFIDENCE),
        statistics.median(without.values()),
        statistics.median(with_fault.values()),
        len(without.keys() & with_fault.keys()),
        date,
    )


_ValuesByBlock = dict[int, float]


def _measure_levels(case: EffectCase, folder: Path) -> tuple[_ValuesByBlock, _ValuesByBlock, str]:
    """Run one campaign with both levels in each block."""
    assert isinstance(case.fault, LevelFault)
    levels = json.dumps([case.fault.without, case.fault.with_fault])
    results = folder / f"{case.rule}.vnb"
    _write_study(case, results.with_suffix(".toml"), f"{case.fault.factor} = {levels}\n", case.blocks)
    document = _run_once(case, results, ())
    if case.lab == "qemu" and document["accelerator"] != KVM:
        raise EffectNotMeasured(
            "no guest runs with KVM here, and without it the emulated CPU hides the effect"
        )
    without, with_fault = (
        {trial["block"]: float(trial["values"][METRIC]) for trial in treatment["trials"]}
        for treatment in document["treatments"]
    )
    if len(without.keys() & with_fault.keys()) < case.blocks:
        raise EffectNotMeasured("a treatment was refused or has failed trials")
    return without, with_fault, document["started_at"][:10]


def _measure_commands(case: EffectCase, folder: Path) -> tuple[_ValuesByBlock, _ValuesByBlock, str]:
    """Run two campaigns for each block; which of them is first changes from block to block."""
    assert isinstance(case.fault, CommandFault)
    values: dict[bool, _ValuesByBlock] = {False: {}, True: {}}
    date = ""
    for block in range(case.blocks):
        for has_fault in (False, True) if block % 2 else (True, False):
            results = folder / f"{case.rule}-{block}-{'with' if has_fault else 'without'}.vnb"
            _write_study(case, results.with_suffix(".toml"), "", 1)
            lines = (*case.fault.preparation, *(case.fault.commands if has_fault else ()))
            document = _run_once(case, results, lines)
            trials = document["treatments"][0]["trials"]
            if not trials:
                raise EffectNotMeasured(f"{results.name} has no trial")
            values[has_fault][block] = float(trials[0]["values"][METRIC])
            date = max(date, document["started_at"][:10])
    return values[False], values[True], date


def _write_study(case: EffectCase, path: Path, varied: str, trials: int) -> None:
    path.write_text(
        f'title = "Effect of a fault"\nworkload = "tcp_stream"\n\n[testbed]\nlab = "{case.lab}"\n'
        f'{case.testbed}\n[timing]\nduration = "{case.trial_s} s"\n\n'
        f'[precision]\nmin_trials = {trials}\nmax_trials = {trials}\ntime_limit = "{_TIME_LIMIT}"\n\n'
        f"[factors]\n{case.factors}{varied or DEFAULT_FACTOR}",
        encoding="utf-8",
    )


def _run_once(case: EffectCase, results: Path, lines: tuple[Command, ...]) -> Mapping[str, Any]:
    """Run the study beside a results file unless the file is finished, and return what it shows."""
    if results.exists() and (document := _show(results)).get("status") == "finished":
        return document
    results.unlink(missing_ok=True)
    output_path = results.with_suffix(".txt")
    with ExitStack() as stack, output_path.open("wb") as output:
        bench = subprocess.Popen(
            [*_VNETBENCH, "run", str(results.with_suffix(".toml")), "-o", str(results)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=die_with_parent,
            start_new_session=True,
        )
        stack.callback(_end, bench)
        if lines:
            _inject(case, bench, [_fill(line, results.parent) for line in lines], stack)
        bench.wait()
    if bench.returncode:
        last_lines = output_path.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-3:]
        raise EffectNotMeasured(f"{results.name}: {' '.join(last_lines)}")
    return _show(results)


def _inject(case: EffectCase, bench: subprocess.Popen[bytes], lines: list[Command], stack: ExitStack) -> None:
    """Run the commands in each testbed of the campaign, before its load starts."""
    load, cpus = tcp(1), tuple(sorted(os.sched_getaffinity(0)))
    cause = Cause(case.rule, "audit", case.fault_text, "commands", ("",), (), (load,), commands(*lines))
    run = Run(cause, 0, Shape(len(cpus)), load, "bridge")
    label = make_label(run, is_control=False)
    inject_and_wait(run, bench, cpus, stack, label, RUN_TIMEOUT_S)
    if label.error:
        raise EffectNotMeasured(label.error)


def _fill(command: Command, folder: Path) -> Command:
    where, line = command
    return where, line.replace(XDP_OBJECT, str(_compile_xdp(folder))) if XDP_OBJECT in line else line


def _compile_xdp(folder: Path) -> Path:
    compiled = folder / "pass.o"
    if not compiled.exists():
        source = folder / "pass.c"
        source.write_text(_XDP_SOURCE, encoding="utf-8")
        subprocess.run(["clang", "-O2", "-target", "bpf", "-c", source, "-o", compiled], check=True)
    return compiled


def _show(results: Path) -> Mapping[str, Any]:
    done = subprocess.run([*_VNETBENCH, "show", str(results), "--json"], capture_output=True, text=True)
    if done.returncode:
        return {}
    document: Mapping[str, Any] = json.loads(done.stdout)
    return document


def _end(bench: subprocess.Popen[bytes]) -> None:
    """End a campaign that still runs: it removes its testbed."""
    if bench.poll() is None:
        bench.terminate()
        bench.wait(60)
