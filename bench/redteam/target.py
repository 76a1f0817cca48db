"""The testbed of a running campaign, as seen and changed from outside."""

from __future__ import annotations

import ctypes
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from bench.redteam.model import Load

NETNS = Path("/run/netns")
PROGRAMS = Path(__file__).parent / "programs.py"
AGENT = "vnetbench-agent"
PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


class InjectionError(Exception):
    """A command of an injection failed."""


def die_with_parent() -> None:
    """Let the kernel end this process when its parent ends. For `preexec_fn`."""
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


@dataclass
class Target:
    """A testbed with its namespaces, and the processes in them.

    Attributes:
        namespaces: Endpoint (`a1`, `b1`, `sw`) to the name of its namespace.
        agents: Endpoint to the process id of its agent.
        bench_pid: The process `vnetbench run`.
        cpus: CPUs of the machine shape.
        log: Every command that was run.
        processes: The command lines and processes that run until the injection ends.
        error_outputs: The standard error of each of these processes, by process id.
    """

    namespaces: dict[str, str]
    agents: dict[str, int]
    bench_pid: int
    cpus: tuple[int, ...]
    load: Load
    vswitch: str
    log: list[str] = field(default_factory=list)
    processes: list[tuple[str, subprocess.Popen[bytes]]] = field(default_factory=list)
    error_outputs: dict[int, IO[bytes]] = field(default_factory=dict)

    @property
    def endpoints(self) -> tuple[str, str]:
        """The sender and the receiver."""
        return "a1", "b1"

    def command(self, where: str, words: Sequence[str]) -> list[str]:
        """Return the command that runs in an endpoint's namespace, or on the machine with `host`."""
        return list(words) if where == "host" else ["ip", "netns", "exec", self.namespaces[where], *words]

    def run(self, where: str, line: str, stdin: str | None = None, *, is_logged: bool = True) -> str:
        """Run a command and return its output; raises InjectionError."""
        if is_logged:
            self.log.append(f"{where}: {line}")
        done = subprocess.run(
            self.command(where, shlex.split(line)), input=stdin, capture_output=True, text=True, timeout=60
        )
        if done.returncode:
            raise InjectionError(f"{where}: {line}: {done.stderr.strip() or done.returncode}")
        return done.stdout

    def spawn(self, stack: ExitStack, where: str, line: str) -> subprocess.Popen[bytes]:
        """Start a process that ends with the injection, at the latest with this process."""
        self.log.append(f"{where}: {line} &")
        errors = tempfile.TemporaryFile()  # noqa: SIM115 - the stack closes it.
        stack.enter_context(errors)
        process = subprocess.Popen(
            self.command(where, shlex.split(line)),
            stdout=subprocess.DEVNULL,
            stderr=errors,
            preexec_fn=die_with_parent,
        )
        stack.callback(_end, process)
        self.error_outputs[process.pid] = errors
        self.processes.append((line, process))
        return process

    def check_processes(self, wait_s: float = 0.0) -> None:
        """Raise InjectionError if an injected process has ended by itself."""
        if self.processes:
            time.sleep(wait_s)
        for line, process in self.processes:
            if process.poll() is not None:
                error = self._error_output(process)
                raise InjectionError(f"ended with {process.returncode}: {line}: {error}")

    def _error_output(self, process: subprocess.Popen[bytes]) -> str:
        """Return what an injected process printed on its standard error."""
        errors = self.error_outputs[process.pid]
        errors.seek(0)
        return errors.read().decode(errors="replace").strip() or "it printed no error"

    def program(self, stack: ExitStack, where: str, words: str) -> subprocess.Popen[bytes]:
        """Start one of the helper programs."""
        return self.spawn(stack, where, f"{sys.executable} {PROGRAMS} {words}")

    def program_with(self, stack: ExitStack, prefix: str, words: str) -> subprocess.Popen[bytes]:
        """Start one of the helper programs through a tool, such as chrt or taskset."""
        return self.spawn(stack, "host", f"{prefix} {sys.executable} {PROGRAMS} {words}")

    def repeat(self, stack: ExitStack, action: Callable[[], float]) -> None:
        """Call `action` until the injection ends; it returns the seconds to wait.

        The first call is in the caller's thread, so an action that never works raises its error here. Later
        calls are in a thread of their own.
        """
        stopped = threading.Event()
        first_wait_s = action()

        def loop() -> None:
            wait_s = first_wait_s
            while not stopped.wait(wait_s):
                try:
                    wait_s = action()
                except (InjectionError, OSError, subprocess.TimeoutExpired):
                    wait_s = 0.1  # The testbed is being removed.

        thread = threading.Thread(target=loop, daemon=True)
        thread.start()
        stack.callback(thread.join, 5)
        stack.callback(stopped.set)

    def address(self, endpoint: str) -> str:
        """Return the endpoint's IPv4 address."""
        output = self.run(endpoint, "ip -4 -o address show dev eth0")
        return output.split("inet ")[1].split("/")[0]

    def sent_bytes(self, endpoint: str) -> int:
        """Return the bytes that an endpoint has sent, or 0."""
        with suppress(InjectionError, OSError, IndexError):
            words = self.command(endpoint, ["cat", "/sys/class/net/eth0/statistics/tx_bytes"])
            return int(subprocess.run(words, capture_output=True, text=True).stdout or 0)
        return 0


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(2)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def testbed_namespaces() -> dict[str, str]:
    """Return endpoint to namespace of the testbed that this mount namespace shows, or nothing."""
    if not NETNS.exists():
        return {}
    names = [entry.name for entry in NETNS.iterdir() if entry.name.startswith("vnb.")]
    return {name.rsplit(".", 1)[1]: name for name in names}


def testbed_identity() -> frozenset[tuple[str, int]]:
    """Return the testbed's namespaces with their inodes, which differ after it is built anew."""
    found = set()
    for name in testbed_namespaces().values():
        with suppress(OSError):
            found.add((name, (NETNS / name).stat().st_ino))
    return frozenset(found)


def descendants(pid: int) -> list[int]:
    """Return the processes that a process started, directly or not."""
    found, left = [], [pid]
    while left:
        parent = left.pop()
        with suppress(OSError):
            for task in Path(f"/proc/{parent}/task").iterdir():
                children = [int(child) for child in (task / "children").read_text().split()]
                found += children
                left += children
    return found


def process_name(pid: int) -> str:
    """Return the name of a process, or nothing if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def find_agents(bench_pid: int, namespaces: dict[str, str]) -> dict[str, int]:
    """Return endpoint to the process id of the agent in its namespace."""
    inodes = {}
    for endpoint, name in namespaces.items():
        with suppress(OSError):
            inodes[(NETNS / name).stat().st_ino] = endpoint
    agents = {}
    for pid in descendants(bench_pid):
        with suppress(OSError):
            owner = inodes.get(Path(f"/proc/{pid}/ns/net").stat().st_ino)
            if owner and process_name(pid) == AGENT:
                agents[owner] = pid
    return agents


def wait_for_testbed(bench: subprocess.Popen[bytes], vswitch: str, timeout_s: float) -> bool:
    """Stop the bench as soon as its testbed is ready. Returns False if it ended before.

    The bench is stopped (SIGSTOP) for a few milliseconds at a time, so that the load cannot start in between.
    """
    deadline = time.monotonic() + timeout_s
    needed = {"a1", "b1"} if vswitch == "direct" else {"a1", "b1", "sw"}
    while bench.poll() is None and time.monotonic() < deadline:
        namespaces = testbed_namespaces()
        if needed <= set(namespaces):
            os.kill(bench.pid, signal.SIGSTOP)
            if {"a1", "b1"} <= set(find_agents(bench.pid, namespaces)):
                return True
            os.kill(bench.pid, signal.SIGCONT)
        time.sleep(0.002)
    return False
