"""The device under test of the lab `netns`: what its ports and the tester's need for frames, and its CPUs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vnetbench.agents.client import AgentClient
from vnetbench.errors import BenchError
from vnetbench.lab import knobs, netlink, threads
from vnetbench.lab.cpus import Shares, shares, vm_cpus
from vnetbench.lab.endpoint import Endpoint
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.lab.knobs import Setting
from vnetbench.lab.netns import open_vswitch
from vnetbench.lab.netns.topology import DIRECT, MACVLAN, OPEN_VSWITCH, Testbed, Vm
from vnetbench.study.factors.cpu_lists import spell_cpu_list
from vnetbench.study.factors.testbed_factors import AUTO
from vnetbench.study.model import Level

ANY, APART = "any", "apart"
FACTOR = "device_cpus"
"""Of frames alone: a treatment that has it sends them."""
WHOLE_FRAMES = {"gro": True, "tso": False}
"""Of both ends of the tester's links. XDP can redirect a frame into a veth only where its peer has NAPI, as
it has with GRO; what is sent otherwise goes by NAPI only where the sending end has no TSO."""


class NotApart(TreatmentRefused):
    """The device cannot have CPUs of its own on this machine."""


def settings_of_vms(testbed: Testbed, factors: Mapping[str, Level]) -> list[Setting]:
    """What the VMs' interfaces must have for the virtual switch, and for frames where those are sent."""
    vswitch = testbed.shape.vswitch
    wanted = []
    if vswitch == OPEN_VSWITCH:
        # Its packet sockets tell neither that a packet still lacks its checksum nor where it is to be cut.
        wanted += [Setting(e, "tx_checksum", False, f"vswitch = {vswitch}") for e in testbed.endpoints]
    if FACTOR in factors and vswitch != MACVLAN:
        offloads = {knob: value for knob, value in WHOLE_FRAMES.items() if knob not in factors}
        wanted += _offloads(testbed.endpoints, offloads)
    return wanted


def shares_of(
    testbed: Testbed, factors: Mapping[str, Level], online: frozenset[int], why_not_apart: str
) -> Shares:
    """Which CPUs are the tester's, and which the device's; `why_not_apart` is empty where that may be tried.

    Raises BenchError for CPUs that are not there.
    """
    level, cpus = str(factors.get(FACTOR, ANY)), str(factors.get("cpus", ANY))
    if level != AUTO:
        return shares(level, cpus, testbed.endpoints, online)
    if why_not_apart:
        return shares(ANY, cpus, testbed.endpoints, online)
    if not ports(testbed):
        # What little there is to do, and counting what came, is done by whoever sends: a sink's thread of its
        # own would have to be woken for every few frames, and lose what came before it was.
        return Shares(vm_cpus(cpus, testbed.endpoints, online), frozenset())
    try:
        return shares(APART, cpus, testbed.endpoints, online)
    except BenchError as error:
        raise NotApart(error.what, fix=error.fix) from error


def ports(testbed: Testbed) -> list[Endpoint]:
    """Those of the device that the VMs are plugged into, as the knobs name them."""
    if testbed.shape.vswitch in (DIRECT, MACVLAN):
        return []
    labels = {d.interface: d.label for way in testbed.ports for d in way}
    return [Endpoint(labels[e.name], "", e.pair, e.name, "", "") for e in testbed.endpoints]


def threads_of_ports(testbed: Testbed) -> list[dict[str, object]]:
    """The kernel's threads that take in frames at the device's ports, `a1 switch0`, and for the sinks at VMs'
    interfaces, `b1 sink0`, as an observer watches them; none where whatever CPU brings a frame goes on."""
    places = [
        (port.interface, "switch", (testbed.switch_namespace, port.interface)) for port in ports(testbed)
    ]
    places += [(vm.name, "sink", vm.device.place) for vm in testbed.endpoints]
    return [
        {"name": f"{name} {kind}{number}", "tid": thread}
        for name, kind, place in places
        for number, thread in enumerate(netlink.napi_threads(*place))
    ]


def place(
    testbed: Testbed, agents: Mapping[str, AgentClient], factors: Mapping[str, Level], given: Shares
) -> dict[str, Any]:
    """Make the ports of tester and device ready for frames, and place both on their CPUs.

    `agents` are those of the VMs and, by their labels, of the device's ports. Returns what was read back.
    Raises TreatmentRefused for what did not take effect, NotApart where that was threads on CPUs.
    """
    own = ports(testbed)
    # A macvlan is handed its packets by its parent, on the CPU that sends: it has no NAPI.
    vms = [] if testbed.shape.vswitch == MACVLAN else list(testbed.endpoints)
    ready = _offloads(own, WHOLE_FRAMES)
    offloads = knobs.set_all(ready, own, agents)
    knobs.judge(ready, offloads)
    sinks = _sinks(vms, factors, given)
    # Softirqs go before processes, and so do their stand-ins; but not before the one that switches itself.
    is_first = testbed.shape.vswitch != OPEN_VSWITCH
    wanted = _threads(own, {port.name: given.device for port in own}, factors, is_first=is_first)
    wanted += _threads(vms, {vm.name: sinks.get(vm.name, frozenset()) for vm in vms}, factors, is_first=True)
    try:
        found = knobs.set_all(wanted, [*vms, *own], agents)
        knobs.judge(wanted, found)
    except TreatmentRefused as refused:
        raise NotApart(refused.what, where=refused.where, fix=refused.fix) from refused
    anywhere = frozenset[int]().union(*given.tester.values())
    places = {str(found[port.name]["napi_cpus"]) for port in own} | {
        threads.move(thread, given.device or anywhere, "Open vSwitch")
        for thread in open_vswitch.threads(testbed.name)
    }
    return {
        FACTOR: "; ".join(sorted(places - {""})) or ANY,
        "tester_cpus": knobs.where_alike({name: spell_cpu_list(own) for name, own in given.tester.items()}),
        "sink_cpus": {name: found[name]["napi_cpus"] for name in sinks},
        "port_offloads": {
            knob: knobs.where_alike({name: each[knob] for name, each in offloads.items()})
            for knob in (WHOLE_FRAMES if own else ())
        },
    }


def _offloads(ends: Iterable[Endpoint], wanted: Mapping[str, bool]) -> list[Setting]:
    return [Setting(end, knob, on, "a workload of frames") for end in ends for knob, on in wanted.items()]


def _threads(
    ends: Iterable[Endpoint],
    cpus: Mapping[str, frozenset[int]],
    factors: Mapping[str, Level],
    *,
    is_first: bool,
) -> list[Setting]:
    """The CPUs of the threads that take in what comes to these; the kernel's own way where there are none."""
    wanted = []
    for end in ends:
        wanted.append(
            Setting(end, "napi_cpus", spell_cpu_list(cpus[end.name]), f"{FACTOR} = {factors[FACTOR]}")
        )
        if cpus[end.name]:
            wanted.append(Setting(end, "napi_first", is_first, f"{FACTOR} = {factors[FACTOR]}"))
    return wanted


def _sinks(vms: Sequence[Vm], factors: Mapping[str, Level], given: Shares) -> dict[str, frozenset[int]]:
    """One CPU for the sink of each VM that has one, after those of the generators in turn.

    A sink beside a generator goes first there: what it does not take at once its short ring would lose, and
    the device be blamed. Nothing where the device's CPUs are not apart.
    """
    if not given.device:
        return {}
    one_way = {"forward": ("a", "b"), "reverse": ("b", "a")}
    sending, receiving = one_way.get(str(factors["direction"]), ("ab", "ab"))
    taken: Counter[frozenset[int]] = Counter()
    for vm in vms:
        if vm.side in sending:
            taken[given.tester[vm.name]] += int(factors["generators"])
    placed = {}
    for vm in vms:
        own = given.tester[vm.name]
        if vm.side in receiving:
            placed[vm.name] = frozenset({sorted(own)[taken[own] % len(own)]})
            taken[own] += 1
    return placed
