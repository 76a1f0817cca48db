"""Causes, loads and machine shapes of the red-team corpus."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.redteam.target import Target

DEVELOPMENT = "development"
HELD_OUT = "held-out"
SECOND = "second"
THIRD = "third"
PARTS = (DEVELOPMENT, HELD_OUT, SECOND, THIRD)
UNSEEN_PARTS = (HELD_OUT, SECOND, THIRD)
"""Parts whose runs print no details, and whose scores need `--final`."""
ORDERED_PARTS = (THIRD,)
"""Parts whose runs follow the declared order of the causes, whatever the seed."""
NOTHING = "nothing wrong"
MISSING = "missing:"
"""Prefix of an accepted name that docs/causes.md lacks."""
BUSY_DUTY = 0.3
"""Share of every CPU that the other load of a busy shape uses."""
STREAM_COUNTS = (1, 2, 4, 8)
WORKLOADS = ("tcp_stream", "tcp_rr", "tcp_crr", "udp_stream", "mixed")
PACED_UDP_RATE = "10 k/s"

Value = float | int | str
Inject = Callable[["Target", Value, ExitStack], None]


@dataclass(frozen=True)
class Load:
    """A workload with its number of streams or connections, and further factors."""

    workload: str
    count: int
    factors: tuple[tuple[str, str], ...] = ()

    @property
    def id(self) -> str:
        """Return a name that is valid in file names."""
        extra = "".join(f"-{name}={level}" for name, level in self.factors)
        return f"{self.workload}-{self.count}{extra}".replace(" ", "").replace("/", "p")

    @property
    def count_factor(self) -> str:
        """Name of the factor that holds `count`."""
        return "connections" if self.workload in ("tcp_rr", "tcp_crr") else "streams"


def tcp(count: int) -> Load:
    """Return bulk TCP with a number of streams."""
    return Load("tcp_stream", count)


def rr(count: int) -> Load:
    """Return requests and responses with a number of connections."""
    return Load("tcp_rr", count)


def crr(count: int) -> Load:
    """Return new connections, a number of them at a time."""
    return Load("tcp_crr", count)


def udp(count: int) -> Load:
    """Return paced datagrams with a number of streams."""
    return Load("udp_stream", count, (("rate", PACED_UDP_RATE), ("pacing", "sleep")))


def udp_flood(count: int) -> Load:
    """Return unpaced datagrams with a number of streams."""
    return Load("udp_stream", count)


def mixed(count: int) -> Load:
    """Return requests beside a number of bulk streams."""
    return Load("mixed", count)


@dataclass(frozen=True)
class Shape:
    """The CPUs that everything runs on, and whether other load uses 30 % of them."""

    cpus: int
    is_busy: bool = False

    @property
    def id(self) -> str:
        """Return the name on the command line, such as `2` or `2-busy`."""
        return f"{self.cpus}-busy" if self.is_busy else str(self.cpus)

    @classmethod
    def parse(cls, text: str) -> Shape:
        """Return the shape with this name; raises ValueError."""
        count, _, rest = text.partition("-")
        if rest not in ("", "busy"):
            raise ValueError(f"unknown machine shape {text!r}: write a number of CPUs, such as 2 or 2-busy")
        return cls(int(count), bool(rest))


@dataclass(frozen=True)
class Cause:
    """A cause that is injected from outside, or a control with nothing wrong.

    Attributes:
        method: How it is injected, in words.
        intensities: Values for `inject`, from weak to strong: three, or two in the third set.
        accepted: Names that an honest engineer would accept, best first.
        loads: Loads that show the cause. Runs take them in turn.
        vswitches: Levels of the factor `vswitch`, taken in turn.
        min_cpus: Fewest CPUs on which the cause exists.
        phase: `testbed`: injected before the bench proves the path. `load`: after the load starts.
        factors: Further factors of the study, such as `direction`.
        lab: Lab of the study.
        own_part: Part of the corpus. Without it, the id decides.
        is_harmless: Something is injected, but nothing is wrong with it.
    """

    id: str
    family: str
    description: str
    method: str
    intensities: tuple[Value, ...]
    accepted: tuple[str, ...]
    loads: tuple[Load, ...]
    inject: Inject | None
    vswitches: tuple[str, ...] = ("bridge",)
    min_cpus: int = 1
    phase: str = "testbed"
    factors: tuple[tuple[str, str], ...] = ()
    lab: str = "netns"
    own_part: str = ""
    is_harmless: bool = False

    @property
    def part(self) -> str:
        """Part of the corpus: `own_part`, or else by a fixed hash of the id."""
        if self.own_part:
            return self.own_part
        return HELD_OUT if hashlib.sha256(self.id.encode()).digest()[0] % 2 else DEVELOPMENT

    @property
    def is_control(self) -> bool:
        """Return whether nothing is injected."""
        return self.inject is None

    @property
    def is_without_fault(self) -> bool:
        """Return whether an explanation that names a fault is a false alarm."""
        return self.is_control or self.is_harmless

    def choose_load(self, intensity: int, turn: int) -> Load:
        """Return the load for an intensity, so that every load has its turn."""
        return self.loads[(intensity + turn) % len(self.loads)]

    def choose_vswitch(self, intensity: int, turn: int) -> str:
        """Return the vSwitch for an intensity, so that every vSwitch has its turn."""
        return self.vswitches[(intensity + turn) % len(self.vswitches)]


@dataclass(frozen=True)
class Run:
    """One run of the plan: a cause at an intensity, on a shape, with a load."""

    cause: Cause
    intensity: int
    shape: Shape
    load: Load
    vswitch: str

    @property
    def id(self) -> str:
        """Return the name of the run's files."""
        return f"{self.cause.id}.{self.intensity}.{self.shape.id}.{self.load.id}.{self.vswitch}"

    @property
    def setting(self) -> tuple[str, str, str, str, tuple[tuple[str, str], ...]]:
        """What a control run must share with this run."""
        return (self.shape.id, self.load.id, self.vswitch, self.cause.lab, self.cause.factors)


@dataclass
class Label:
    """What the corpus knows about a run. It is stored beside the results file as JSON."""

    run_id: str
    cause: str
    family: str
    part: str
    intensity: int
    value: Value
    accepted: tuple[str, ...]
    shape: str
    load: str
    workload: str
    vswitch: str
    lab: str = "netns"
    is_control: bool = False
    results: str = ""
    control: str = ""
    exit_code: int | None = None
    error: str = ""
    effect: str = "unknown"
    changes: dict[str, float] = field(default_factory=dict)
    injected: list[str] = field(default_factory=list)
    injections: int = 0
    bytes_before_injection: int = 0
    other_share: float = 0.0
    """Share of the CPU time of the shape that programs outside the run and threads of the kernel used."""
    programs_share: float | None = None
    """Share that programs outside the run used. None in labels from before 2026-11-23."""
    outside_programs: dict[str, float] = field(default_factory=dict)
    """CPU seconds of those programs with the most (`outside_programs.py`)."""
    steal_share: float = 0.0
    started_at: str = ""
    elapsed_s: float = 0.0
    revision: str = ""
    is_diagnosed: bool = False
    """Whether the bench ran with `--diagnose`."""
