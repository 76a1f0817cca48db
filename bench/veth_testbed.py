"""Testbed for frame generators: two VMs on a veth pair, and the generators that send on it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

from bench import live_frames
from bench.programs import EXIT_TIMEOUT_S, RunFailed
from bench.testbed import TESTBED_NAME, interface_counters, split_cpus
from vnetbench.agents.client import AgentClient, AgentError
from vnetbench.errors import BenchError
from vnetbench.lab import netlink
from vnetbench.lab.errors import TrialFailed
from vnetbench.lab.netns.testbed import NetnsTestbed, create_testbed
from vnetbench.lab.netns.topology import NetnsShape, Vm
from vnetbench.lab.registry import PROCESS_LABEL

FRAME_BYTES = 64
"""Frame size with the FCS, of which the kernel sees 60 bytes."""
SECRET = "00112233445566778899aabbccddeeff"
_WARMUP_S = 0.3
"""Time before the measurement, since the bare loop waits for all CPUs before its first frame."""
_TRIAL_ID = "frames"

TRAFGEN_FLAGS = ("", "--prio-high", "--ring-size 64MiB", "--qdisc-path")
PRIORITIES: Mapping[str, Sequence[str]] = {
    "real-time": ("chrt", "--rr", "1"),
    "nice -20": ("nice", "-n", "-20"),
}
"""Commands that run a peer with priority over other work. Each peer runs with both; the better one counts.

The kernel may take 5 % of the CPU time from a real-time thread that never sleeps; other work may take CPU
time from a nice thread. The real-time policy is round robin (RR), since trafgen's parent process must handle
a signal while its child sends frames.
"""


class VethTestbed:
    """A veth pair with an agent at both ends (`create_veth_testbed`)."""

    def __init__(self, testbed: NetnsTestbed) -> None:
        self.source, self.sink = testbed.topology.endpoints
        self._agents = testbed.agents
        self._cpu = split_cpus(1).partition("/")[0]
        self._macs = {vm.name: self._read_mac(vm) for vm in (self.source, self.sink)}

    def agent(self, vm: Vm) -> AgentClient:
        """Return the agent of a VM."""
        return self._agents[vm.name]

    def trial_parameters(self, role: str, **changes: object) -> dict[str, Any]:
        """Return the parameters of `trial.prepare` for a role, with one stream on one CPU."""
        local, remote = (self.source, self.sink) if role == "source" else (self.sink, self.source)
        return {
            "trial": _TRIAL_ID, "workload": "frames", "secret": SECRET, "interface": local.interface,
            "streams": [{"id": 0, "role": role}], "thread_cpus": [self._cpu] if role == "source" else None,
            "frame_bytes": [{"bytes": FRAME_BYTES, "weight": 1}], "mac_to": self._macs[remote.name],
            "addresses": {"from": local.address, "to": remote.address}, "system": False, **changes,
        }  # fmt: skip

    def pinned_command(self, vm: Vm, priority: str, command: Sequence[str]) -> list[str]:
        """Return a command line for a VM's namespace, with one of PRIORITIES, on the generator's CPU."""
        pinning = [*PRIORITIES[priority], "taskset", "-c", self._cpu]
        return ["ip", "netns", "exec", vm.namespace, *pinning, *command]

    def measure_frames_per_s(self, seconds: float) -> float:
        """Return the frames/s that the sink's interface counts after the warm-up."""
        time.sleep(_WARMUP_S)
        start_s, frames_before = time.monotonic(), self._received_frames()
        time.sleep(seconds)
        frames_after, end_s = self._received_frames(), time.monotonic()
        return (frames_after - frames_before) / (end_s - start_s)

    def _read_mac(self, vm: Vm) -> str:
        interfaces = self.agent(vm).call("agent.facts")["interfaces"]
        return next(str(each["mac"]) for each in interfaces if each["name"] == vm.interface)

    def _received_frames(self) -> int:
        return netlink.run_in_namespace(
            self.sink.namespace, lambda: interface_counters(self.sink.interface)[1]
        )


@contextmanager
def create_veth_testbed() -> Iterator[VethTestbed]:
    """Create the testbed and remove it at the end.

    Raises:
        RunFailed: The testbed cannot be created, or an agent fails.
    """
    try:
        testbed = create_testbed(f"{TESTBED_NAME}-w", NetnsShape(vswitch="direct"), "make bench")
        try:
            yield VethTestbed(testbed)
        finally:
            testbed.close()
    except (BenchError, TrialFailed, AgentError) as error:
        raise RunFailed(str(error)) from error


def measure_generator(seconds: float) -> float:
    """Return the frames/s of the agent's generator. An XDP program drops all frames at the sink."""
    with create_veth_testbed() as testbed, _drop_frames(testbed):
        agent = testbed.agent(testbed.source)
        agent.call("trial.prepare", **testbed.trial_parameters("source", generator="xdp"))
        agent.call("trial.start", trial=_TRIAL_ID, duration_s=seconds + EXIT_TIMEOUT_S)
        try:
            return testbed.measure_frames_per_s(seconds)
        finally:
            agent.call("trial.stop", trial=_TRIAL_ID)


def measure_bare_loop(priority: str, seconds: float) -> float:
    """Return the frames/s of the bare loop with one of PRIORITIES."""
    with create_veth_testbed() as testbed, _drop_frames(testbed):
        command = _live_frames_command("send", testbed.source.interface, str(seconds + EXIT_TIMEOUT_S))
        with _run_in_background(testbed.pinned_command(testbed.source, priority, command)):
            return testbed.measure_frames_per_s(seconds)


def measure_trafgen(flags: str, priority: str, seconds: float) -> float:
    """Return the frames/s of trafgen with these flags and one of PRIORITIES."""
    with (
        create_veth_testbed() as testbed,
        _drop_frames(testbed),
        tempfile.NamedTemporaryFile("w", suffix=".cfg") as frame_file,
    ):
        frame_file.write("{ 0x02, 0, 0, 0, 0, 2, 0x02, 0, 0, 0, 0, 1, c16(0x88b5), fill(0, 46) }\n")
        frame_file.flush()
        interface_options = ["--dev", testbed.source.interface, "--conf", frame_file.name]
        command = ["trafgen", *interface_options, "--cpus", "1", *flags.split()]
        pinned_command = testbed.pinned_command(testbed.source, priority, command)
        with _run_in_background(pinned_command, prints_ready=False):
            return testbed.measure_frames_per_s(seconds)


def run_frame_trial(seconds: float, **changes: object) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Run a trial of frames between two agents and return the final reports of source and sink."""
    with create_veth_testbed() as testbed:
        reports = {}
        agents = {"sink": testbed.agent(testbed.sink), "source": testbed.agent(testbed.source)}
        for role, agent in agents.items():
            agent.call("trial.prepare", **testbed.trial_parameters(role, **changes))
        for agent in agents.values():
            agent.call("trial.start", trial=_TRIAL_ID, duration_s=seconds)
        for role, agent in agents.items():
            while "trial.end" not in (event := agent.events.get(timeout=seconds + EXIT_TIMEOUT_S)):
                pass
            reports[role] = event[1]
        return reports["source"], reports["sink"]


def _drop_frames(testbed: VethTestbed) -> AbstractContextManager[None]:
    command = _live_frames_command("drop", testbed.sink.interface)
    return _run_in_background(["ip", "netns", "exec", testbed.sink.namespace, *command])


def _live_frames_command(*arguments: str) -> list[str]:
    return [sys.executable, live_frames.__file__, *arguments]


@contextmanager
def _run_in_background(command: Sequence[str], prints_ready: bool = True) -> Iterator[None]:
    """Run a program until the end of the block.

    Raises:
        RunFailed: The program does not start, or it exits during the block.
    """
    program = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, PROCESS_LABEL: TESTBED_NAME}, start_new_session=True,
    )  # fmt: skip
    assert program.stdin is not None and program.stdout is not None
    try:
        if prints_ready and (line := program.stdout.readline().strip()) != live_frames.READY:
            output = f"{line} {program.stdout.read()[-300:]}"
            raise RunFailed(f"{Path(command[-1]).name} does not start: {output}")
        yield
        if program.poll() is not None:
            raise RunFailed(f"the program exited too early: {program.stdout.read()[-300:]}")
    finally:
        program.stdin.close()
        with suppress(ProcessLookupError):  # the program may have exited
            os.killpg(program.pid, signal.SIGKILL)
        program.wait()
