"""Faults of a running bench: kills, stops, removed parts of its testbed, a full disk, a stepped clock."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bench.redteam.target import descendants, process_name, testbed_namespaces

INTERRUPTED_EXIT_CODE = 130
FAILED_EXIT_CODE = 2
CLOCK_STEPS_S = (-3600, -5, 5, 3600)
_PAUSE_S = (0.2, 2.0)


@dataclass(frozen=True)
class RunningBench:
    """A bench under test.

    Attributes:
        process: `vnetbench run` or `vnetbench resume`.
        folder: Folder of the results file, on a small file system of its own.
        clock_file: File with the offset of the bench's wall clock, in seconds (stepped_clock.c).
    """

    process: subprocess.Popen[str]
    folder: Path
    clock_file: Path

    def pids(self, program: str) -> list[int]:
        """Return the bench's processes of this program."""
        return [pid for pid in descendants(self.process.pid) if process_name(pid).startswith(program)]


Inject = Callable[[RunningBench, random.Random], bool]
"""Injects a fault, once. Returns False if there was nothing to disturb, such as no agent between trials."""


@dataclass(frozen=True)
class Fault:
    """A fault.

    Attributes:
        name: Name in the report.
        inject: Injects it.
        exit_codes: Exit codes with which the bench may end because of it. Empty: the bench continues.
        weight: How often it is chosen, relative to the other faults.
        lab: The only lab that it concerns; empty for all.
    """

    name: str
    inject: Inject
    exit_codes: tuple[int, ...] = ()
    weight: int = 2
    lab: str = ""


def _send_to_bench(number: signal.Signals) -> Inject:
    def inject(bench: RunningBench, chance: random.Random) -> bool:
        bench.process.send_signal(number)
        return True

    return inject


def _send_to_one(program: str, number: signal.Signals) -> Inject:
    def inject(bench: RunningBench, chance: random.Random) -> bool:
        for pid in chance.sample(found := bench.pids(program), min(1, len(found))):
            with suppress(ProcessLookupError):
                os.kill(pid, number)
                return True
        return False

    return inject


def _pause_bench(bench: RunningBench, chance: random.Random) -> bool:
    bench.process.send_signal(signal.SIGSTOP)
    time.sleep(chance.uniform(*_PAUSE_S))
    bench.process.send_signal(signal.SIGCONT)
    return True


def _pause_agent(bench: RunningBench, chance: random.Random) -> bool:
    for pid in chance.sample(found := bench.pids("vnetbench-agent"), min(1, len(found))):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            time.sleep(chance.uniform(*_PAUSE_S))
            os.kill(pid, signal.SIGCONT)
            return True
    return False


def _delete_interface(bench: RunningBench, chance: random.Random) -> bool:
    namespace = testbed_namespaces().get(chance.choice(("a1", "b1")))
    return bool(namespace) and _succeeds("ip", "-n", str(namespace), "link", "del", "eth0")


def _delete_namespace(bench: RunningBench, chance: random.Random) -> bool:
    namespace = testbed_namespaces().get(chance.choice(("a1", "b1", "sw")))
    return bool(namespace) and _succeeds("ip", "netns", "del", str(namespace))


def _succeeds(*command: str) -> bool:
    return subprocess.run(command, capture_output=True).returncode == 0


def _fill_disk(bench: RunningBench, chance: random.Random) -> bool:
    """Fill the file system of the results until the bench ends, and free it again."""
    filler = bench.folder / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while bench.process.poll() is None:
            file.write(b"\0" * 65536)
    with suppress(subprocess.TimeoutExpired):
        bench.process.wait(60)
    filler.unlink(missing_ok=True)
    return True


def _step_clock(bench: RunningBench, chance: random.Random) -> bool:
    bench.clock_file.write_text(str(chance.choice(CLOCK_STEPS_S)))
    return True


FAULTS = (
    Fault("bench killed", _send_to_bench(signal.SIGKILL), (-signal.SIGKILL,), weight=4),
    Fault("bench ended by SIGTERM", _send_to_bench(signal.SIGTERM), (INTERRUPTED_EXIT_CODE,)),
    Fault("bench ended by SIGHUP", _send_to_bench(signal.SIGHUP), (INTERRUPTED_EXIT_CODE,)),
    Fault("bench ended by SIGINT", _send_to_bench(signal.SIGINT), (INTERRUPTED_EXIT_CODE,)),
    Fault("disk full", _fill_disk, (FAILED_EXIT_CODE,)),
    Fault("bench paused", _pause_bench),
    Fault("agent killed", _send_to_one("vnetbench-agent", signal.SIGKILL)),
    Fault("agent paused", _pause_agent),
    Fault("agent stopped", _send_to_one("vnetbench-agent", signal.SIGSTOP), weight=1),
    Fault("clock stepped", _step_clock),
    Fault("interface deleted", _delete_interface, lab="netns"),
    Fault("namespace deleted", _delete_namespace, lab="netns"),
    Fault("guest killed", _send_to_one("qemu-system", signal.SIGKILL), lab="qemu"),
)
