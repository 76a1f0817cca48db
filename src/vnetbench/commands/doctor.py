"""The command `doctor`: what can be measured on this machine, tried out; what is missing; how to get it."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

from rich.console import Console

from vnetbench.agents.binary import agent_binary
from vnetbench.agents.client import AgentClient, AgentError
from vnetbench.agents.launch import start_observer
from vnetbench.campaign.iperf3_instrument import HostsInstrument
from vnetbench.campaign.instrument import Done, Instrument, LabInstrument
from vnetbench.campaign.trial import Load
from vnetbench.commands import guest_setup
from vnetbench.commands.doctor_check import GOOD, LIMITED, MISSING, Check, print_check
from vnetbench.errors import BenchError
from vnetbench.estimate.trial_metrics import metric_values
from vnetbench.lab import privilege
from vnetbench.lab.links import delay_line
from vnetbench.lab.links import netem
from vnetbench.lab.netns.testbed import NetnsLab
from vnetbench.lab.errors import TrialFailed
from vnetbench.quantity import format_bytes, format_rate, spell_bytes
from vnetbench.results.records import TrialRecord
from vnetbench.study.factors.registry import complete
from vnetbench.study.file.host_section import HOST
from vnetbench.study.labs import HOSTS, IPERF3
from vnetbench.study.model import HostAsked, Level, TestbedAsked
from vnetbench.study.workloads import DATAGRAMS, FRAMES, STREAM

TRIAL_S = 0.3
VSOCK_PATIENCE_S = 0.5
VSOCK_LOOPBACK_CID = 1
"""VMADDR_CID_LOCAL (vsock(7))."""
NEEDED = ("agent", "vswitch bridge")
"""Without these no campaign can run."""
NEEDED_OF_SERVER = "direction forward"
WANTED_CONGESTION_CONTROLS = ("cubic", "bbr", "reno")

# What is tried: a name for people, the levels that a treatment would ask for, and the shaper.
TRIED: tuple[tuple[str, dict[str, Level], str], ...] = (
    (NEEDED[1], {}, "tbf"),
    ("vswitch direct", {"vswitch": "direct"}, "tbf"),
    ("vswitch macvlan", {"vswitch": "macvlan"}, "tbf"),
    ("vswitch router", {"vswitch": "router"}, "tbf"),
    ("vswitch openvswitch", {"vswitch": "openvswitch"}, "tbf"),
    ("mtu 9000", {"mtu": 9000}, "tbf"),
    ("ip_version 6", {"ip_version": "6"}, "tbf"),
    ("tso, gso, gro off", {"tso": "off", "gso": "off", "gro": "off"}, "tbf"),
    ("checksum_offload off", {"checksum_offload": "off", "tso": "off"}, "tbf"),
    ("link_rate by tbf", {"link_rate": 10**9}, "tbf"),
    ("link_rate by htb", {"link_rate": 10**9}, "htb"),
    ("link_queue fq_codel", {"link_rate": 10**9, "link_queue": "fq_codel"}, "tbf"),
    ("link_delay", {"link_delay": 0.001}, "tbf"),
    ("link_loss, link_reordering", {"link_loss": 0.001, "link_reordering": 0.001}, "tbf"),
    ("irq_cpus (RPS)", {"irq_cpus": "spread"}, "tbf"),
    ("cpu_quota", {"cpu_quota": 0.5}, "tbf"),
    ("queues", {"queues": 1}, "tbf"),
    ("transport mptcp", {"transport": "mptcp"}, "tbf"),
    ("pacing_rate", {"pacing_rate": 10**9}, "tbf"),
    ("pairs 8", {"pairs": 8}, "tbf"),
)
TRIED_OF_DATAGRAMS: tuple[tuple[str, dict[str, Level]], ...] = (
    ("udp_stream", {}),
    ("udp_gso, udp_gro", {"udp_gso": "on", "udp_gro": "on"}),
    ("uso off", {"udp_gso": "on", "uso": "off"}),
)
_MEANS = {netem.NAME: "the kernel's netem", delay_line.NAME: "a delay line of the bench's own"}
"""By `link_impaired_by` of a trial's `effective`."""
ROOM_BYTES = 1 << 20
"""Of a socket buffer: smaller ones overflow within a millisecond at a million datagrams a second."""


def examine(console: Console) -> int:
    """Try everything and print a line for each; returns 0 when a campaign can run here, else 1."""
    try:
        agent_binary()
        privilege.enter_for_run()
    except BenchError as error:
        print_check(console, Check("a campaign", MISSING, error.what, error.fix or ""))
        return 1
    able = True
    for check in _checks():
        print_check(console, check)
        able = able and not (check.name in NEEDED and check.state == MISSING)
    return 0 if able else 1


def _checks() -> Iterator[Check]:
    if privilege.is_inside():
        yield Check("privilege", LIMITED, privilege.COST, "run with sudo")
    else:
        yield Check("privilege", GOOD, "root")
    try:
        observer = start_observer("doctor")
        facts = observer.call("agent.facts")
        vsock = _vsock(observer)
        observer.close()
    except (AgentError, BenchError) as error:
        yield Check("agent", MISSING, str(error), "make install")
        return
    yield from _of_facts(facts)
    yield vsock
    for name, levels, shaper in TRIED:
        yield _tried(name, Load(complete(levels), TRIAL_S, TRIAL_S / 2), shaper)
    for name, levels in TRIED_OF_DATAGRAMS:
        yield _tried(name, Load(complete(levels, DATAGRAMS), TRIAL_S, TRIAL_S / 2, DATAGRAMS))
    yield _frames()
    yield from guest_setup.checks()


def _vsock(agent: AgentClient) -> Check:
    """Connect a stream over the loopback of VSOCK, which the agent speaks and no lab of namespaces offers."""
    common = {"workload": "tcp_stream", "secret": secrets.token_hex(16), "timeout_s": VSOCK_PATIENCE_S}

    def prepare(trial: str, role: str, **place: object) -> dict[str, Any]:
        streams = [{"id": 0, "role": role}]
        asked = agent.send("trial.prepare", trial=trial, streams=streams, **common, **place)
        return agent.wait(asked, "trial.prepare")

    try:
        port = prepare("sink", "sink", listen={"vsock": {}})["port"]
        prepare("source", "source", connect={"vsock": {"cid": VSOCK_LOOPBACK_CID, "port": port}})
    except AgentError as error:
        fix = "modprobe vsock_loopback; between a VM and its host VSOCK works without it"
        return Check("VSOCK loopback", LIMITED, error.message, fix)
    finally:
        for trial in ("sink", "source"):
            agent.send("trial.stop", trial=trial)
    return Check("VSOCK loopback", GOOD, "connected")


def _of_facts(facts: Mapping[str, Any]) -> Iterator[Check]:
    cpu = facts.get("cpu") or {}
    yield Check(
        "kernel", GOOD, f"Linux {facts['kernel']['release']} on {cpu.get('model') or 'an unknown CPU'}"
    )
    count = int(cpu.get("count") or 0)
    yield Check(
        "CPUs", GOOD if count >= 2 else LIMITED, str(count),
        "" if count >= 2 else "with one CPU both ends of a stream share it; add CPUs to this machine",
    )  # fmt: skip
    perf = facts.get("perf") or {}
    hardware = perf.get("system_cycles") == "hardware"
    yield Check(
        "cycles per byte", GOOD if hardware else LIMITED,
        "from hardware counters" if hardware
        else f"estimated from CPU time and clock: {perf.get('reason') or 'no hardware counters'}",
        "",
    )  # fmt: skip
    available = set((facts.get("tcp") or {}).get("available_congestion_control") or ())
    lacking = [name for name in WANTED_CONGESTION_CONTROLS if name not in available]
    yield Check(
        "congestion_control", GOOD if not lacking else LIMITED, " ".join(sorted(available)) or "unknown",
        "; ".join(f"modprobe tcp_{name}" for name in lacking),
    )  # fmt: skip
    buffers = facts.get("socket_buffers") or {}
    for name in ("rmem_max", "wmem_max"):
        if most := buffers.get(name):
            yield Check(
                name, GOOD if most >= ROOM_BYTES else LIMITED, f"socket_buffer up to {spell_bytes(most)}",
                "" if most >= ROOM_BYTES else f"sysctl -w net.core.{name}={ROOM_BYTES} (or more)",
            )  # fmt: skip
    yield Check("memory", GOOD, format_bytes(int(facts.get("memory_bytes") or 0)))


def examine_server(console: Console, server: str) -> int:
    """Try an iperf3 server and print a line for each; returns 0 when a campaign can run with it, else 1."""
    host = HostAsked("server", iperf3=str(HOST.keys["iperf3"].kind.parse(server)))
    able = False
    with closing(HostsInstrument(TestbedAsked(lab=HOSTS, hosts=(host,)))) as instrument:
        for check in _of_server(instrument):
            print_check(console, check)
            able = able or (check.state == GOOD and check.name == NEEDED_OF_SERVER)
    return 0 if able else 1


def _of_server(instrument: HostsInstrument) -> Iterator[Check]:
    try:
        said = instrument.greet()
    except BenchError as error:
        yield Check("iperf3 server", MISSING, error.what, error.fix or "")
        return
    if version := said["version"]:
        yield Check("iperf3 server", GOOD, f"{version} on {said['system'] or 'an unknown system'}")
    else:
        fix = "started with --json it tells it, and results keep it"
        yield Check("iperf3 server", LIMITED, "it serves, and does not tell its version", fix)
    for direction in ("forward", "reverse", "both"):
        load = Load(complete({"direction": direction}, STREAM, IPERF3), TRIAL_S, TRIAL_S / 2)
        yield _carried(f"direction {direction}", instrument, load)


def _tried(name: str, load: Load, shaper: str = "tbf") -> Check:
    """Put a treatment on a testbed and load it for a moment."""
    asked = TestbedAsked(shaper=shaper)
    with closing(LabInstrument(NetnsLab(asked, "doctor"), asked)) as instrument:
        return _carried(name, instrument, load)


def _frames() -> Check:
    """Frames for a moment: by which ways this machine makes and counts them."""
    asked = TestbedAsked()
    load = Load(complete({}, FRAMES), TRIAL_S, TRIAL_S / 2, FRAMES)
    with closing(LabInstrument(NetnsLab(asked, "doctor"), asked)) as instrument:
        done = _measured(FRAMES, instrument, load)
    if isinstance(done, Check):
        return done
    ways = done.measured.effective
    told = f"made by {ways['generator']}, counted by {ways['sink']}"
    if why := ways.get("frames_why"):
        each = dict.fromkeys(why.values()) if isinstance(why, Mapping) else [str(why)]
        return Check(FRAMES, LIMITED, told, f"for more frames/s: {'; '.join(each)}")
    return Check(FRAMES, GOOD, told)


def _measured(name: str, instrument: Instrument, load: Load) -> Done | Check:
    """The load carried for a moment, or what kept it from being."""
    try:
        return instrument.measure(load, lambda: False)
    except BenchError as error:
        return Check(name, MISSING, error.what, error.fix or "")
    except TrialFailed as error:
        return Check(name, MISSING, str(error))


def _carried(name: str, instrument: Instrument, load: Load) -> Check:
    done = _measured(name, instrument, load)
    if isinstance(done, Check):
        return done
    trial = TrialRecord(0, 0, done.shape, 0.0, TRIAL_S, done.setup_s, {}, done.measured.sides)
    try:
        goodput_bps = metric_values(trial, 0)["goodput_bps"]
    except ValueError:
        return Check(
            name, LIMITED, "it carried load, but no sample came of it", "try again when less goes on"
        )
    by = done.measured.effective.get("link_impaired_by", "none")
    means = "" if by == "none" else f", impaired by {_MEANS[str(by)]}"
    return Check(name, GOOD, f"carried {format_rate(goodput_bps)} for a moment{means}")
