"""What a study is once it has been read: plain values, nothing running."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vnetbench.study.labs import IPERF3

ALL_COMBINATIONS, ONE_AT_A_TIME = "all", "one-at-a-time"
"""How levels make treatments (`Study.combine`)."""

Level = str | int | float
"""One canonical level of a factor: bytes, bits/s and counts as numbers, everything else as a word."""


@dataclass(frozen=True)
class FactorLevels:
    """One factor of a study and its levels, in the order of the file."""

    name: str
    levels: tuple[Level, ...]


@dataclass(frozen=True)
class Precision:
    """When a treatment has been repeated often enough."""

    confidence: float = 0.95
    half_width: float = 0.03
    """Wanted half-width of the deciding metric's interval, as a share of its value."""
    fewest_trials: int = 6
    most_trials: int = 30
    time_limit_s: float | None = None
    """Limit of the whole campaign, set-up included."""
    metric: str | None = None
    """The metric that decides; None: the workload's own (`workloads.main_metric`)."""


@dataclass(frozen=True)
class Timing:
    """How long a trial is, what is cut from its beginning and how often it is sampled."""

    duration_s: float | None = None
    """None: chosen by the bench from a pilot."""
    warmup_s: float | None = None
    """None: found in each trial's own samples."""
    interval_s: float = 0.05
    idle_s: float | None = None
    """Of the workload `mixed`: how long there are only requests, before the load; None: chosen."""


@dataclass(frozen=True)
class SearchSpec:
    """How the throughput is searched: a series of steps, each a load held for a time (RFC 2544's trial)."""

    method: str = "vnetbench"
    loss: str = "0 %"
    """The goals: accepted frame loss ratios, ascending."""
    width: float = 0.01
    """Of the answer's interval, as a share of the throughput."""
    step_s: float = 1.0
    """Length of a full step."""
    settle_s: float = 0.1
    """A step has ended when no frame of it has come for so long after its load."""
    most_load_fps: float | None = None
    """Of each direction. None: as fast as the generator goes."""
    least_load_fps: float = 1000.0
    """Of each direction; a device that loses too much of this has no throughput."""
    confidence: float = 0.95
    time_limit_s: float | None = None
    """Of all steps of one search. None: chosen by the bench, so that every treatment has its searches."""

    @property
    def goals(self) -> tuple[float, ...]:
        """The accepted frame loss ratios as numbers."""
        return tuple(float(goal.strip(" %")) / 100 for goal in self.loss.split(","))


@dataclass(frozen=True)
class HostSpec:
    """An endpoint that exists already, of the lab `hosts`."""

    name: str
    ssh: str | None = None
    """How OpenSSH's client names it: `user@name`, a name of the user's own configuration, `ssh://…`."""
    iperf3: str | None = None
    """Where its iperf3 server listens, `host:port`."""
    local: bool = False
    """It is the machine that the bench runs on."""
    interface: str | None = None
    """What the load goes through. None: as its system routes it."""
    address: str | None = None
    """Its own, for the load. None: the interface's, or as its system chooses it."""
    next_hop: str | None = None
    """The MAC address that frames are sent to. None: that of the pair's other interface."""

    @property
    def machine_key(self) -> str:
        """Alike for two interfaces of one machine, as far as the study tells."""
        return self.ssh or self.iperf3 or ""


@dataclass(frozen=True)
class TestbedSpec:
    """The testbed that the study asks for, without the factors that vary it."""

    __test__ = False  # pytest: not a test class

    lab: str = "netns"
    uplink: bool = False
    """Two vSwitches joined by an uplink, the VMs of a pair on different ones; else one vSwitch for all."""
    shaper: str = "tbf"
    """The queueing discipline behind `link_rate`: tbf or htb."""
    vswitch_mtu: int | None = None
    """A fixed MTU of every port of the vSwitch; None: it follows the factor `mtu`."""
    vf_of: str | None = None
    """Of the lab `qemu`: the host's adapter whose virtual functions guests get."""
    hosts: tuple[HostSpec, ...] = ()
    """Of the lab `hosts`: its endpoints."""
    ports: str | None = None
    """Of the lab `hosts`: those that data connections are made to, `first-last`; None: any."""

    @property
    def backend(self) -> str:
        """Of testbed: decides which factors can be set on it (`labs.py`)."""
        return IPERF3 if any(host.iperf3 for host in self.hosts) else self.lab


@dataclass(frozen=True)
class Study:
    """What is asked: factors, their levels, a workload, a precision."""

    title: str
    question: str
    workload: str
    testbed: TestbedSpec
    factors: tuple[FactorLevels, ...]
    exclude: tuple[Mapping[str, tuple[Level, ...]], ...]
    """A treatment is left out when every named factor has one of the levels named for it."""
    timing: Timing
    precision: Precision
    text: str
    """The study file's own text, kept in the results file."""
    combine: str = ALL_COMBINATIONS
    """`all` combinations of levels; or `one-at-a-time`: the first levels, and one change to them each."""
    together: tuple[Mapping[str, Level], ...] = ()
    """Of `one-at-a-time`: changes that are made together, a treatment each."""
    search: SearchSpec | None = None
    """How each trial searches the throughput; None: it does not."""
    published: str | None = None
    """The published figures that results are shown beside (`published.figures.NAMES`)."""
    path: str | None = None
    overrides: tuple[str, ...] = ()
    """The `--set` arguments that changed the file's levels, as given."""


@dataclass(frozen=True)
class Treatment:
    """One combination of levels."""

    index: int
    factors: Mapping[str, Level]


@dataclass(frozen=True)
class Plan:
    """Every treatment of a study, and the seed that orders the blocks."""

    treatments: tuple[Treatment, ...]
    seed: int
