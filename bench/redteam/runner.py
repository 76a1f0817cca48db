"""Runs one load with or without an injected cause, and stores the results file and the label."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.redteam import effects
from bench.redteam.model import BUSY_DUTY, MISSING, NOTHING, Label, Run
from bench.redteam.outside_programs import OutsideMeter
from bench.redteam.target import (
    InjectionError,
    Target,
    descendants,
    die_with_parent,
    find_agents,
    process_name,
    testbed_identity,
    testbed_namespaces,
    wait_for_testbed,
)

VNETBENCH = (sys.executable, "-m", "vnetbench")
TRIALS = 3
TRIAL_S = 1.0
QEMU_TRIAL_S = 2.0
START_TIMEOUT_S = 60.0
RUN_TIMEOUT_S = 150.0
DIAGNOSIS_TIMEOUT_S = 120.0
"""Time that a run with `--diagnose` may take in addition: 60 s of interventions, and their testbeds."""
READ_TIMEOUT_S = 120.0
WATCH_S = 0.005
PROCESS_START_S = 0.2
"""Time that injected processes get to start, and to fail, before the bench continues."""
LOAD_BYTES = 20_000
"""Bytes of the sender after which the load has started."""
OPTIONS_BY_WORKLOAD = {"mixed": 'idle = "500 ms"\n'}
ROOT_REVISION = ("git", "rev-parse", "--short", "HEAD")


def write_study(path: Path, run: Run, trials: int = TRIALS) -> None:
    """Write the study of a run. Neither its title nor its name shows the cause."""
    factors = [(run.load.count_factor, str(run.load.count))]
    if run.cause.lab == "netns":
        factors.append(("vswitch", json.dumps(run.vswitch)))
    factors += [(name, json.dumps(level)) for name, level in (*run.load.factors, *run.cause.factors)]
    duration = QEMU_TRIAL_S if run.cause.lab == "qemu" else TRIAL_S
    path.write_text(
        f'title = "Run"\nworkload = "{run.load.workload}"\n\n'
        f'[testbed]\nlab = "{run.cause.lab}"\n\n'
        f'[timing]\nduration = "{duration} s"\n{OPTIONS_BY_WORKLOAD.get(run.load.workload, "")}\n'
        f'[precision]\nmin_trials = {trials}\nmax_trials = {trials}\ntime_limit = "2 min"\n\n'
        "[factors]\n" + "".join(f"{name} = {level}\n" for name, level in factors)
    )


def make_label(run: Run, is_control: bool) -> Label:
    """Return the label of a run before it starts."""
    return Label(
        run_id=run.id,
        cause=run.cause.id,
        family=run.cause.family,
        part=run.cause.part,
        intensity=run.intensity,
        value=run.cause.intensities[run.intensity],
        accepted=(NOTHING,) if is_control else run.cause.accepted,
        shape=run.shape.id,
        load=run.load.id,
        workload=run.load.workload,
        vswitch=run.vswitch,
        lab=run.cause.lab,
        is_control=is_control,
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        revision=read_revision(),
    )


def proof_file(results: Path) -> Path:
    """Return the file of a run's interventions (docs/explain.md, "Experiments")."""
    return results.with_name(f"{results.stem}.proof.vnb")


def read_revision() -> str:
    """Return the revision of the source, or nothing outside a clone."""
    here = Path(__file__).parent
    return subprocess.run(ROOT_REVISION, cwd=here, capture_output=True, text=True).stdout.strip()


def perform(
    run: Run,
    folder: Path,
    name: str,
    cpus: Sequence[int],
    accounting: Path | None,
    trials: int = TRIALS,
    diagnose: bool = False,
) -> Label:
    """Run a load, with the run's cause unless it is a control, and return its label.

    Args:
        run: The run.
        folder: Folder for the study, the results file and the output.
        name: Name of the files.
        cpus: CPUs of the machine shape; this process is confined to them already.
        accounting: Control group whose CPU time is the red team's own.
        trials: Number of trials.
        diagnose: Whether the bench also runs its interventions, under the same cause.
    """
    label = make_label(run, run.cause.is_without_fault)
    label.is_diagnosed = diagnose
    study, results = folder / f"{name}.toml", folder / f"{name}.vnb"
    label.results = results.name
    results.unlink(missing_ok=True)
    proof_file(results).unlink(missing_ok=True)
    write_study(study, run, trials)
    meter = OutsideMeter(accounting, cpus)
    start = time.monotonic()
    with ExitStack() as stack:
        try:
            other_load = _start_other_load(stack, cpus) if run.shape.is_busy else None
        except (InjectionError, OSError) as error:
            label.error = f"other load: {error}"
            return label
        with (folder / f"{name}.txt").open("wb") as output:
            bench = subprocess.Popen(
                [*VNETBENCH, "run", str(study), "-o", str(results), *(["--diagnose"] if diagnose else [])],
                stdout=output,
                stderr=subprocess.STDOUT,
                preexec_fn=die_with_parent,
                start_new_session=True,
            )
            stack.callback(_end_bench, bench)
            inject_and_wait(run, bench, tuple(cpus), stack, label)
        if other_load:
            _check_other_load(other_load, label)
    label.exit_code = bench.returncode
    label.elapsed_s = round(time.monotonic() - start, 1)
    outside = meter.read()
    label.other_share, label.steal_share = outside.all_share, outside.steal_share
    label.programs_share, label.outside_programs = outside.programs_share, dict(outside.program_s)
    return label


def inject_and_wait(
    run: Run,
    bench: subprocess.Popen[bytes],
    cpus: tuple[int, ...],
    stack: ExitStack,
    label: Label,
    timeout_s: float | None = None,
) -> None:
    """Inject the run's cause into each testbed of a bench, and wait until the bench ends or the time is over.

    Without `timeout_s`, the bench may take as long as a run of the corpus.
    """
    if timeout_s is None:
        timeout_s = RUN_TIMEOUT_S + (DIAGNOSIS_TIMEOUT_S if label.is_diagnosed else 0)
    if run.cause.is_control:
        with suppress(subprocess.TimeoutExpired):
            bench.wait(timeout_s)
    else:
        _keep_injected(run, bench, cpus, stack, label, timeout_s)
    if bench.poll() is None:
        label.error = label.error or f"the bench did not end within {timeout_s:.0f} s"


def _keep_injected(
    run: Run,
    bench: subprocess.Popen[bytes],
    cpus: tuple[int, ...],
    stack: ExitStack,
    label: Label,
    timeout_s: float,
) -> None:
    """Inject the run's cause into each testbed, until the bench ends or the time is over."""
    deadline = time.monotonic() + timeout_s
    while bench.poll() is None and not label.error and time.monotonic() < deadline:
        injection = stack.enter_context(ExitStack())
        testbed = _inject(run, bench, cpus, injection, label)
        # The bench builds a new testbed after a failed trial, or if a setting changed. A fault stays there.
        while bench.poll() is None and time.monotonic() < deadline:
            time.sleep(WATCH_S)
            if testbed and (now := testbed_identity()) and now != testbed:
                break
        injection.close()


def _inject(
    run: Run, bench: subprocess.Popen[bytes], cpus: tuple[int, ...], stack: ExitStack, label: Label
) -> frozenset[tuple[str, int]]:
    """Inject the run's cause into the current testbed, and return what identifies the testbed."""
    assert run.cause.inject
    try:
        target = _catch(run, bench, cpus)
        if target is None:
            label.error = "" if label.injections else "no testbed was seen"
        else:
            sent_bytes = target.sent_bytes("a1") if run.cause.lab == "netns" else 0
            label.bytes_before_injection = max(label.bytes_before_injection, sent_bytes)
            label.injected = target.log
            label.injections += 1
            run.cause.inject(target, run.cause.intensities[run.intensity], stack)
            target.check_processes(PROCESS_START_S)
    except Exception as error:  # The run is discarded, and its label says why.
        label.error = f"{type(error).__name__}: {error}"
    finally:
        with suppress(ProcessLookupError):
            os.kill(bench.pid, signal.SIGCONT)
    return testbed_identity()


def _catch(run: Run, bench: subprocess.Popen[bytes], cpus: tuple[int, ...]) -> Target | None:
    """Stop the bench in the phase of the injection; None if it ended before."""
    if run.cause.lab == "qemu":
        return _catch_guests(run, bench, cpus)
    if not wait_for_testbed(bench, run.vswitch, START_TIMEOUT_S):
        return None
    namespaces = testbed_namespaces()
    agents = find_agents(bench.pid, namespaces)
    target = Target(namespaces, agents, bench.pid, cpus, run.load, run.vswitch)
    if run.cause.phase == "load":
        os.kill(bench.pid, signal.SIGCONT)
        deadline = time.monotonic() + START_TIMEOUT_S
        while target.sent_bytes("a1") < LOAD_BYTES:
            if bench.poll() is not None or time.monotonic() > deadline:
                return None
        os.kill(bench.pid, signal.SIGSTOP)
    return target


def _catch_guests(run: Run, bench: subprocess.Popen[bytes], cpus: tuple[int, ...]) -> Target | None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while bench.poll() is None and time.monotonic() < deadline:
        guests = [pid for pid in descendants(bench.pid) if process_name(pid).startswith("qemu-system")]
        if len(guests) >= 2:
            return Target({}, {}, bench.pid, cpus, run.load, "")
        time.sleep(0.1)
    return None


def _start_other_load(stack: ExitStack, cpus: Sequence[int]) -> Target:
    helper = Target({}, {}, 0, tuple(cpus), None, "")  # type: ignore[arg-type]
    for cpu in cpus:
        helper.program_with(stack, f"taskset -c {cpu}", f"spin {BUSY_DUTY} 0.02")
    helper.check_processes(PROCESS_START_S)
    return helper


def _check_other_load(helper: Target, label: Label) -> None:
    try:
        helper.check_processes()
    except InjectionError as error:
        label.error = label.error or f"other load: {error}"


def _end_bench(bench: subprocess.Popen[bytes]) -> None:
    """End a bench that still runs: politely first, so that it removes its testbed."""
    if bench.poll() is None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            os.kill(bench.pid, number)
            os.kill(bench.pid, signal.SIGCONT)
            with suppress(subprocess.TimeoutExpired):
                bench.wait(10)
                break
        subprocess.run([*VNETBENCH, "lab", "clean"], capture_output=True, timeout=60)


class ReadError(Exception):
    """`vnetbench show` or `vnetbench explain` failed on a results file."""


def show(results: Path) -> dict[str, Any]:
    """Return the output of `vnetbench show --json`; empty without a results file. Raises ReadError."""
    return _read_json("show", results)


def explain(results: Path) -> dict[str, Any]:
    """Return the output of `vnetbench explain --json`; empty without a results file. Raises ReadError."""
    return _read_json("explain", results)


def explain_counters_only(results: Path) -> dict[str, Any]:
    """Return what `explain` says without the run's interventions. Raises ReadError."""
    if not proof_file(results).exists():
        return explain(results)
    with tempfile.TemporaryDirectory() as folder:
        # The bench finds the interventions by their name next to the results file.
        return explain(Path(shutil.copy(results, folder)))


def _read_json(command: str, results: Path) -> dict[str, Any]:
    if not results.exists():
        return {}
    words = [*VNETBENCH, command, str(results), "--json"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=READ_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise ReadError(f"{command}: no answer within {READ_TIMEOUT_S:.0f} s") from None
    if done.returncode:
        last_line = (done.stderr.strip().splitlines() or [""])[-1]
        raise ReadError(f"{command}: exit code {done.returncode}: {last_line}")
    try:
        record = json.loads(done.stdout)
    except ValueError as error:
        raise ReadError(f"{command}: no valid JSON: {error}") from None
    if not isinstance(record, dict):
        raise ReadError(f"{command}: no JSON object")
    return record


def judge(label: Label, folder: Path, control: Path | None) -> None:
    """Fill in whether the cause had an effect, or the error that prevents the answer."""
    try:
        _judge(label, folder, control)
    except ReadError as error:
        label.error = label.error or str(error)


def _judge(label: Label, folder: Path, control: Path | None) -> None:
    if label.is_control:
        label.effect = effects.FAILED if effects.is_failed(show(folder / label.results)) else NOTHING
        return
    label.control = control.name if control else ""
    without = show(control) if control else None
    label.effect, label.changes = effects.compare(show(folder / label.results), without)


def save(label: Label, path: Path) -> None:
    """Write a label, complete or not at all."""
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(dataclasses.asdict(label), indent=1) + "\n")
    temporary.replace(path)


def is_documented(name: str, causes_page: str) -> bool:
    """Return whether docs/causes.md has a name, or the name says that it does not."""
    return name == NOTHING or name.startswith(MISSING) or f"\n### {name}\n" in causes_page
