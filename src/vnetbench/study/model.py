"""The data model of a study: plain values, with nothing running."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vnetbench.study.labs import IPERF3_BACKEND
from vnetbench.study.teams import TeamSpec

ALL_COMBINATIONS, ONE_AT_A_TIME = "all", "one-at-a-time"
"""How the levels make treatments (`Study.combine`)."""

Level = str | int | float
"""One canonical level of a factor: bytes, bit/s, seconds and counts as numbers, all else as a keyword."""

SecondsOrChosenByBench = float | None
"""Seconds; None: the bench chooses them."""

FpsOrGeneratorMaximum = float | None
"""Frames per second; None: as fast as the generator can send."""


@dataclass(frozen=True)
class FactorLevels:
    """One factor of a study and its levels, in the order of the file."""

    name: str
    levels: tuple[Level, ...]


@dataclass(frozen=True)
class Precision:
    """When a treatment has enough trials."""

    confidence: float = 0.95
    half_width: float = 0.03
    """Target half-width of the deciding metric's confidence interval, as a share of its value."""
    min_trials: int = 6
    max_trials: int = 30
    campaign_time_limit_s: float | None = None
    """Time limit of the whole campaign, including set-up."""
    metric: str | None = None
    """Deciding metric; None: that of the workload (`workloads.deciding_metric`)."""


@dataclass(frozen=True)
class Timing:
    """Length, warm-up and sampling of a trial."""

    duration_s: SecondsOrChosenByBench = None
    """Length of a trial; the bench would choose it from a pilot."""
    warmup_s: float | None = None
    """Time cut from the start of a trial; None: found in the samples of each trial."""
    interval_s: float = 0.05
    """Time between samples."""
    idle_phase_s: SecondsOrChosenByBench = None
    """Workload `mixed`: time with requests only, before the transfers start."""


@dataclass(frozen=True)
class SearchSpec:
    """Search for the throughput: a series of steps, each with a constant load (a trial of RFC 2544)."""

    method: str = "vnetbench"
    loss_goals: str = "0 %"
    """Goals: accepted frame loss ratios, ascending."""
    relative_width: float = 0.01
    """Target width of the throughput's interval, as a share of the throughput."""
    step_s: float = 1.0
    """Length of a full step."""
    residual_frames_wait_s: float = 0.1
    """A step ends when no frame has arrived for this long after its load stops."""
    max_load_fps: FpsOrGeneratorMaximum = None
    """Largest load of each direction."""
    min_load_fps: float = 1000.0
    """Smallest load of each direction; a device that loses too many frames at it has no throughput."""
    confidence: float = 0.95
    time_limit_s: SecondsOrChosenByBench = None
    """Limit of all steps of one search; the bench would choose it so that each treatment gets its trials."""

    @property
    def loss_goal_ratios(self) -> tuple[float, ...]:
        """The accepted frame loss ratios as numbers."""
        return tuple(float(goal.strip(" %")) / 100 for goal in self.loss_goals.split(","))


@dataclass(frozen=True)
class ExistingEndpointSpec:
    """An existing endpoint of the lab `hosts`, or of a lab of existing VMs."""

    name: str
    ssh_destination: str | None = None
    """Destination for OpenSSH: `user@name`, a name in the user's SSH configuration, or `ssh://…`."""
    iperf3_server: str | None = None
    """Address of its iperf3 server, `host:port`."""
    is_bench_machine: bool = False
    """Whether it is the machine that the bench runs on."""
    interface: str | None = None
    """Interface of the load; None: its system's routes decide."""
    address: str | None = None
    """Its own address for the load; None: the interface's, or the one that its system chooses."""
    next_hop_mac: str | None = None
    """Destination MAC address of frames; None: that of the other interface of the pair."""
    domain: str | None = None
    """Name of the VM at the hypervisor; None: the study does not change the machine's hardware."""
    adapter_mac: str | None = None
    """MAC address of the VM's adapter that the study changes; None: the VM has one adapter."""

    @property
    def machine_key(self) -> str:
        """Equal for two interfaces of one machine, as far as the study shows."""
        return self.ssh_destination or self.iperf3_server or ""


@dataclass(frozen=True)
class TestbedSpec:
    """The testbed of a study, without the factors that vary it."""

    lab: str = "netns"
    uplink: bool = False
    """Two vSwitches joined by an uplink, with one VM of each pair on each; False: one vSwitch for all VMs."""
    shaper: str = "tbf"
    """Queueing discipline that implements `link_rate`: tbf or htb."""
    vswitch_mtu: int | None = None
    """Fixed MTU of every port of the vSwitch; None: the factor `mtu`."""
    vf_interface: str | None = None
    """Lab `qemu`: the host adapter whose virtual functions the guests use."""
    existing_endpoints: tuple[ExistingEndpointSpec, ...] = ()
    """Labs of existing machines: their endpoints."""
    connection: str | None = None
    """Labs of existing VMs: the hypervisor."""
    load_destination_ports: str | None = None
    """Labs of existing machines: destination ports of the load, `first-last`; None: any."""
    teams: tuple[TeamSpec, ...] = ()
    """Lab `netns`: teams of links, without the factors that vary them."""
    audit: bool = True
    """Labs `hosts` and `qemu`: whether the campaign stores an audit of the endpoints' settings."""

    @property
    def backend(self) -> str:
        """Backend of the testbed: its lab, or `iperf3`. It decides which factors can be set (`labs.py`)."""
        return IPERF3_BACKEND if any(host.iperf3_server for host in self.existing_endpoints) else self.lab


@dataclass(frozen=True)
class Study:
    """A study: its factors and levels, workload, testbed and precision."""

    title: str
    question: str
    workload: str
    """Name of the workload (`workloads.WORKLOADS`)."""
    testbed: TestbedSpec
    factors: tuple[FactorLevels, ...]
    exclude: tuple[Mapping[str, tuple[Level, ...]], ...]
    """Exclusions; a treatment is excluded if every factor of one has one of the levels listed for it."""
    timing: Timing
    precision: Precision
    text: str
    """Text of the study file, stored in the results file."""
    combine: str = ALL_COMBINATIONS
    """`all`: every combination of levels; `one-at-a-time`: the first levels, and each single change to
    them."""
    together: tuple[Mapping[str, Level], ...] = ()
    """With `one-at-a-time`: sets of changes that are made together, one treatment each."""
    search: SearchSpec | None = None
    """How each trial searches for the throughput; None: it does not."""
    published: str | None = None
    """Published table that the reports compare the results with (`published.catalog`)."""
    path: str | None = None
    overrides: tuple[str, ...] = ()
    """The `--set` arguments that changed the study, as given."""


@dataclass(frozen=True)
class Treatment:
    """One combination of levels."""

    index: int
    factors: Mapping[str, Level]


@dataclass(frozen=True)
class Plan:
    """All treatments of a study, and the seed for the order of the blocks."""

    treatments: tuple[Treatment, ...]
    seed: int
