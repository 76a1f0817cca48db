"""The factors that a study may vary: what each means, how its levels are written, what holds without it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vnetbench.study import kinds
from vnetbench.study.kinds import Kind
from vnetbench.study.model import Level
from vnetbench.study.problems import WrongValue, suggest
from vnetbench.study.workloads import CONNECTIONS, REQUESTS, STREAM, WORKLOADS


@dataclass(frozen=True)
class Factor:
    """One factor."""

    name: str
    kind: Kind
    unit: str
    """Unit of the canonical levels that are numbers; empty for words."""
    default: Level | None
    """The level when a study does not name the factor; None: as the system has it."""
    description: str
    examples: tuple[str, ...]
    """Values as they stand in a study file (TOML)."""
    workloads: tuple[str, ...] = WORKLOADS
    """Those that it holds for."""

    @property
    def numeric(self) -> bool:
        """Whether its levels are numbers, a word such as "auto" or "none" at most beside them."""
        return self.unit != ""


_ALL = (
    Factor(
        "streams",
        kinds.counts(1, 1024),
        "1",
        1,
        "TCP connections at work at once in each pair of VMs (in each direction when `direction` is `both`).",
        ('"1, 2, 4 .. 16"', "[1, 4]", "4"),
        (STREAM,),
    ),
    Factor(
        "connections",
        kinds.counts(1, 1024),
        "1",
        1,
        "Connections that ask at once in each pair of VMs (in each direction when `direction` is `both`). "
        "With `tcp_crr` each of them makes one connection after the other.",
        ('"1, 2, 4 .. 16"', "[1, 100]", "4"),
        (REQUESTS, CONNECTIONS),
    ),
    Factor(
        "request_size",
        kinds.sizes(1, 64 * 2**20),
        "B",
        1,
        "Bytes of a request.",
        ('"1 B, 64 B, 4 KiB"', '"100 B"'),
        (REQUESTS, CONNECTIONS),
    ),
    Factor(
        "response_size",
        kinds.sizes(1, 64 * 2**20),
        "B",
        1,
        "Bytes of the answer to a request.",
        ('["1 B", "64 KiB"]', '"1 KiB"'),
        (REQUESTS, CONNECTIONS),
    ),
    Factor(
        "rate",
        kinds.frequencies(0.1, 10**7, "none"),
        "1/s",
        "none",
        "How often each connection asks. `none`: a closed loop, a request follows the answer to the one "
        "before. A frequency: an open loop, requests are sent at set times, answered or not, and latency "
        "counts from the time that was set, so that what a slow answer keeps waiting is not left out.",
        ('["1 k/s", "10 k/s"]', '"10000 /s"', '"none"'),
        (REQUESTS,),
    ),
    Factor(
        "waiting",
        kinds.words("block", "spin", "busy_poll"),
        "",
        "block",
        "How both sides wait. `block`: the kernel puts them to sleep. `spin`: they ask again and again, on "
        "at most so many threads a VM that each has a CPU. `busy_poll`: the kernel asks the interface for "
        "50 µs before it puts them to sleep (SO_BUSY_POLL); needs root, and a driver that can be asked "
        "(a veth cannot, unless its GRO is on). Not with a `rate`.",
        ('["block", "spin"]', '"busy_poll"'),
        (REQUESTS,),
    ),
    Factor(
        "direction",
        kinds.words("forward", "reverse", "both"),
        "",
        "forward",
        "`forward`: the first VM of a pair sends to (or asks) the second; `reverse`: the second sends to the "
        "first; `both`: both send at once.",
        ('["forward", "reverse"]', '"both"'),
    ),
    Factor(
        "mtu",
        kinds.counts(576, 65535, unit="B"),
        "B",
        1500,
        "MTU in bytes of every interface on the path. The ports of the vSwitch follow it unless "
        "`testbed.vswitch_mtu` is set. It is proved both ways before load is sent.",
        ("[1500, 9000]", "9000"),
    ),
    Factor(
        "message_size",
        kinds.sizes(1, 64 * 2**20),
        "B",
        2**20,
        "Bytes handed to the kernel in one `send` call.",
        ('"64 B, 256 B, 1 KiB .. 64 KiB"', '"1 MiB"'),
        (STREAM,),
    ),
    Factor(
        "socket_buffer",
        kinds.sizes(1024, 2**30, "auto"),
        "B",
        "auto",
        "SO_SNDBUF and SO_RCVBUF of every connection; `auto` leaves the kernel's auto-tuning on. Where the "
        "kernel grants less (`net.core.wmem_max`, `rmem_max`) the treatment is refused.",
        ('["8 KiB", "64 KiB", "auto"]', '"auto"'),
    ),
    Factor(
        "congestion_control",
        kinds.algorithms(),
        "",
        "cubic",
        "TCP's congestion control, by the kernel's name for it. The system's own default differs between "
        "machines, so it is set in every trial.",
        ('["cubic", "bbr"]', '"reno"'),
    ),
    Factor(
        "tso",
        kinds.switches(),
        "",
        None,
        "TCP segmentation offload of the VMs' interfaces. The kernel has it off wherever scatter-gather or "
        "`checksum_offload` is off.",
        ('["on", "off"]', "true"),
    ),
    Factor(
        "gso",
        kinds.switches(),
        "",
        None,
        "Generic segmentation offload of the VMs' interfaces: large segments are cut just before the driver. "
        "With `tso` on it changes nothing for TCP, since the driver takes large segments anyway.",
        ('["on", "off"]', "false"),
    ),
    Factor(
        "gro",
        kinds.switches(),
        "",
        None,
        "Generic receive offload of the VMs' interfaces: packets of one stream are joined before the stack.",
        ('["on", "off"]', "false"),
    ),
    Factor(
        "checksum_offload",
        kinds.switches(),
        "",
        None,
        "Transmit and receive checksum offload of the VMs' interfaces.",
        ('["on", "off"]', "false"),
    ),
    Factor(
        "pairs",
        kinds.counts(1, 64),
        "1",
        1,
        "Pairs of VMs at work at once.",
        ('"1, 2, 4 .. 8"', "[1, 8]"),
    ),
    Factor(
        "cpus",
        kinds.placements(),
        "",
        None,
        "CPUs that a VM's processes may use. `any`: all of them. `N each`: every VM in turn gets N CPUs, "
        "from the first on, starting over when all are given. `0-1`: both VMs of every pair use these. "
        "`0/1`: the first VM of a pair uses those before the stroke, the second those after it.",
        ('["any", "1 each"]', '"0-1"', '"0/1"'),
    ),
    Factor(
        "irq_cpus",
        kinds.receive_cpus(),
        "",
        None,
        "CPUs that do the receive processing of the VMs' interfaces (receive packet steering, RPS). `off`: "
        "RPS is off, the sender's CPU goes on. `own`: the VM's own CPUs. `apart`: the CPUs that are not the "
        "VM's. `spread`: all CPUs. Or a CPU list. `apart` needs CPUs given by `cpus`; without them `own` "
        "is all CPUs.",
        ('["off", "own", "apart", "spread"]', '"0-1"'),
    ),
    Factor(
        "queues",
        kinds.counts(1, 64),
        "1",
        None,
        "Transmit and receive queues of the VMs' interfaces.",
        ("[1, 4]", '"1, 2, 4 .. 8"'),
    ),
    Factor(
        "link_rate",
        # What tc's 32-bit field of bytes per second holds is a little more.
        kinds.rates(1000, 34 * 10**9, "none"),
        "bit/s",
        None,
        "Rate to which the uplink (`testbed.uplink = true`) or else every VM's interface is shaped, by "
        "`testbed.shaper`; `none`: no shaping.",
        ('["none", "10 Gbit/s"]', '"1 Gbit/s"'),
    ),
    Factor(
        "vswitch",
        kinds.words("bridge", "direct", "macvlan"),
        "",
        "bridge",
        "What joins the VMs: a Linux `bridge`; `direct`, one link between the two VMs of a pair and no "
        "switch; `macvlan` interfaces of one parent.",
        ('["bridge", "macvlan"]', '"direct"'),
    ),
)

FACTORS: Mapping[str, Factor] = {factor.name: factor for factor in _ALL}
"""Every factor by its name, in the order of the reference."""

_COUNTERPARTS = {"streams": "connections", "connections": "streams", "message_size": "request_size",
                 "request_size": "message_size"}  # fmt: skip
"""What stands for a factor in another workload, however unlike the words are."""


def factor_named(name: str) -> Factor:
    """The factor of that name; raises WrongValue with the nearest name."""
    if name in FACTORS:
        return FACTORS[name]
    fix = suggest(name, FACTORS, otherwise=f"factors: {', '.join(FACTORS)}")
    raise WrongValue(f'"{name[:60]}" is not a factor', fix=fix)


def parse_level(name: str, raw: object) -> Level:
    """The canonical level of factor `name` from a raw TOML value or a text; raises a BenchError."""
    return factor_named(name).kind.parse(raw)


def format_level(name: str, level: Level) -> str:
    """A canonical level as a person writes it: "64 KiB", "10 Gbit/s", "9000"; WrongValue for no factor."""
    return factor_named(name).kind.spell(level)


def complete(levels: Mapping[str, Level], workload: str = STREAM) -> dict[str, Level]:
    """The levels of a treatment together with the workload's defaults of the factors that it lacks."""
    return {**_defaults(workload), **levels}


def _defaults(workload: str) -> dict[str, Level]:
    return {
        factor.name: factor.default
        for factor in _ALL
        if factor.default is not None and workload in factor.workloads
    }


def check_workload(name: str, workload: str) -> None:
    """Raises WrongValue with the nearest factor where factor `name` does not hold for the workload."""
    if workload in FACTORS[name].workloads:
        return
    here = [factor.name for factor in _ALL if workload in factor.workloads]
    counterpart = _COUNTERPARTS.get(name)
    fix = (
        f'did you mean "{counterpart}"?'
        if counterpart in here
        else suggest(name, here, otherwise=f"its factors: {', '.join(here)}")
    )
    raise WrongValue(f"{name} is not a factor of the workload {workload}", fix=fix)
