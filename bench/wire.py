"""The ground of the rows of frames: two VMs on a pair of veth alone, and what makes or drops frames there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bench import live_frames
from bench.testbed import TESTBED_NAME, split_cpus, interface_counters
from bench.programs import PATIENCE_S, RunFailed
from vnetbench.agents.client import AgentClient, AgentError
from vnetbench.errors import BenchError
from vnetbench.lab import netlink
from vnetbench.lab.netns.topology import NetnsShape, Vm
from vnetbench.lab.netns.testbed import NetnsTestbed, create_testbed
from vnetbench.lab.errors import TrialFailed
from vnetbench.lab.registry import PROCESS_LABEL

FRAME_BYTES = 64
"""With FCS; 60 bytes of it are the kernel's."""
SECRET = "00112233445566778899aabbccddeeff"
_WARM_S = 0.3
"""A tool is counted from then on: the bare loop waits for all CPUs before its first frame."""
_TRIAL = "frames"

TRAFGEN_FLAGS = ("", "--prio-high", "--ring-size 64MiB", "--qdisc-path")
CLASSES: Mapping[str, Sequence[str]] = {"real-time": ("chrt", "--rr", "1"), "nice -20": ("nice", "-n", "-20")}
"""How a peer can run before other work. From a real-time thread that never sleeps the kernel may take 5 % of
the time, from the other other work may: each peer is tried as both, and its better one counts.

Real-time in turns (RR): trafgen's parent must come to hear a signal while its child makes frames."""


class Wire:
    """A pair of veth with an agent at both ends. Made by `raised`."""

    def __init__(self, bed: NetnsTestbed) -> None:
        self.source, self.sink = bed.topology.endpoints
        self._agents = bed.agents
        self._cpu = split_cpus(1).partition("/")[0]
        self._macs = {vm.name: self._mac(vm) for vm in (self.source, self.sink)}

    def agent(self, vm: Vm) -> AgentClient:
        """That of one end."""
        return self._agents[vm.name]

    def asked(self, role: str, **changes: object) -> dict[str, Any]:
        """The parameters of `trial.prepare` for the end of that role, one stream on one CPU."""
        here, there = (self.source, self.sink) if role == "source" else (self.sink, self.source)
        return {
            "trial": _TRIAL, "workload": "frames", "secret": SECRET, "interface": here.interface,
            "streams": [{"id": 0, "role": role}], "thread_cpus": [self._cpu] if role == "source" else None,
            "frame_bytes": [{"bytes": FRAME_BYTES, "weight": 1}], "mac_to": self._macs[there.name],
            "addresses": {"from": here.address, "to": there.address}, "system": False, **changes,
        }  # fmt: skip

    def inside(self, vm: Vm, first: str, command: Sequence[str]) -> list[str]:
        """A command in one end's namespace, on the CPU that makes frames, before other work: of CLASSES."""
        pinned = [*CLASSES[first], "taskset", "-c", self._cpu]
        return ["ip", "netns", "exec", vm.namespace, *pinned, *command]

    def frames_per_s(self, seconds: float) -> float:
        """What comes to the sink's interface, by its own count, once the tool has warmed up."""
        time.sleep(_WARM_S)
        began, before = time.monotonic(), self._received()
        time.sleep(seconds)
        after, ended = self._received(), time.monotonic()
        return (after - before) / (ended - began)

    def _mac(self, vm: Vm) -> str:
        interfaces = self.agent(vm).call("agent.facts")["interfaces"]
        return next(str(each["mac"]) for each in interfaces if each["name"] == vm.interface)

    def _received(self) -> int:
        return netlink.run_in_namespace(self.sink.namespace, lambda: interface_counters(self.sink.interface)[1])


@contextmanager
def raised() -> Iterator[Wire]:
    """The wire, removed again at the end; raises RunFailed."""
    try:
        bed = create_testbed(f"{TESTBED_NAME}-w", NetnsShape(vswitch="direct"), "make bench")
        try:
            yield Wire(bed)
        finally:
            bed.close()
    except (BenchError, TrialFailed, AgentError) as error:
        raise RunFailed(str(error)) from error


def generated(seconds: float) -> float:
    """Frames/s of the agent's generator, its frames dropped by a program that does nothing else."""
    with raised() as wire, _dropping(wire):
        agent = wire.agent(wire.source)
        agent.call("trial.prepare", **wire.asked("source", generator="xdp"))
        agent.call("trial.start", trial=_TRIAL, duration_s=seconds + PATIENCE_S)
        try:
            return wire.frames_per_s(seconds)
        finally:
            agent.call("trial.stop", trial=_TRIAL)


def bare_loop(first: str, seconds: float) -> float:
    """Frames/s of the bare loop in one of CLASSES, dropped likewise."""
    with raised() as wire, _dropping(wire):
        command = _live_frames("send", wire.source.interface, str(seconds + PATIENCE_S))
        with _running(wire.inside(wire.source, first, command)):
            return wire.frames_per_s(seconds)


def trafgen(flags: str, first: str, seconds: float) -> float:
    """Frames/s of trafgen with these flags in one of CLASSES, dropped likewise."""
    with raised() as wire, _dropping(wire), tempfile.NamedTemporaryFile("w", suffix=".cfg") as frame:
        frame.write("{ 0x02, 0, 0, 0, 0, 2, 0x02, 0, 0, 0, 0, 1, c16(0x88b5), fill(0, 46) }\n")
        frame.flush()
        command = [
            "trafgen",
            "--dev",
            wire.source.interface,
            "--conf",
            frame.name,
            "--cpus",
            "1",
            *flags.split(),
        ]
        with _running(wire.inside(wire.source, first, command), says_ready=False):
            return wire.frames_per_s(seconds)


def trial(seconds: float, **changes: object) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """A whole trial of frames between two agents; returns what each end said at its end."""
    with raised() as wire:
        ends = {}
        roles = {"sink": wire.agent(wire.sink), "source": wire.agent(wire.source)}
        for role, agent in roles.items():
            agent.call("trial.prepare", **wire.asked(role, **changes))
        for agent in roles.values():
            agent.call("trial.start", trial=_TRIAL, duration_s=seconds)
        for role, agent in roles.items():
            while "trial.end" not in (event := agent.events.get(timeout=seconds + PATIENCE_S)):
                pass
            ends[role] = event[1]
        return ends["source"], ends["sink"]


def _dropping(wire: Wire) -> Any:
    command = _live_frames("drop", wire.sink.interface)
    return _running(["ip", "netns", "exec", wire.sink.namespace, *command])


def _live_frames(*words: str) -> list[str]:
    return [sys.executable, live_frames.__file__, *words]


@contextmanager
def _running(command: Sequence[str], says_ready: bool = True) -> Iterator[None]:
    """A program that runs until the block is left; raises RunFailed where it ended before."""
    program = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, PROCESS_LABEL: TESTBED_NAME}, start_new_session=True,
    )  # fmt: skip
    assert program.stdin is not None and program.stdout is not None
    try:
        if says_ready and (said := program.stdout.readline().strip()) != live_frames.READY:
            raise RunFailed(f"{Path(command[-1]).name} does not begin: {said} {program.stdout.read()[-300:]}")
        yield
        if program.poll() is not None:
            raise RunFailed(f"it ended too early: {program.stdout.read()[-300:]}")
    finally:
        program.stdin.close()
        with suppress(ProcessLookupError):  # it may have ended by itself
            os.killpg(program.pid, signal.SIGKILL)
        program.wait()
