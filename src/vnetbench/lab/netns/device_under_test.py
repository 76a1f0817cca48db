"""Prepares the device under test of the lab `netns`, and the tester beside it, for frames."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vnetbench.agents.client import AgentClient
from vnetbench.errors import BenchError
from vnetbench.lab import knobs, netlink, threads
from vnetbench.lab.cpus import TesterAndDeviceCpus, assign_vm_cpus, partition_cpus
from vnetbench.lab.endpoint import NO_SIDE, Endpoint
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.lab.knobs import KnobSetting
from vnetbench.lab.netns import open_vswitch
from vnetbench.lab.netns.topology import DIRECT, MACVLAN, OPEN_VSWITCH, NetnsTopology, Vm
from vnetbench.study.factors.cpu_lists import format_cpu_list
from vnetbench.study.factors.frame_factors import GENERATORS_PER_DIRECTION
from vnetbench.study.factors.load_factors import DIRECTION
from vnetbench.study.factors.testbed_factors import AUTO, DEVICE_CPUS, GRO, TSO, VM_CPUS
from vnetbench.study.model import Level

ANY, APART = "any", "apart"
FRAME_OFFLOADS = {GRO.name: True, TSO.name: False}
"""Offloads of both ends of the tester's links. Their factors and knobs have the same names.

XDP can redirect a frame into a veth only if its peer has NAPI, which GRO enables. Frames sent otherwise pass
through NAPI only if the sending end has no TSO.
"""


class DeviceCpusUnavailable(TreatmentRefused):
    """The device cannot have its own CPUs on this machine."""


def required_vm_knob_settings(topology: NetnsTopology, factors: Mapping[str, Level]) -> list[KnobSetting]:
    """Return the settings of the VMs' interfaces that the virtual switch and the frames require."""
    vswitch = topology.shape.vswitch
    settings = []
    if vswitch == OPEN_VSWITCH:
        # Its packet sockets lose the metadata that a packet lacks its checksum or must be segmented.
        settings += [KnobSetting(e, "tx_checksum", False, f"vswitch = {vswitch}") for e in topology.endpoints]
    if DEVICE_CPUS.is_present_in(factors) and vswitch != MACVLAN:
        offloads = {name: is_on for name, is_on in FRAME_OFFLOADS.items() if name not in factors}
        settings += _offload_settings(topology.endpoints, offloads)
    return settings


def divide_tester_and_device_cpus(
    topology: NetnsTopology,
    factors: Mapping[str, Level],
    online_cpus: frozenset[int],
    must_share_cpus: bool,
) -> TesterAndDeviceCpus:
    """Divide the CPUs between the tester and the device under test.

    Args:
        topology: The testbed's topology.
        factors: The treatment's levels.
        online_cpus: All CPUs of the machine.
        must_share_cpus: Whether the device cannot have its own CPUs at the level `auto`.

    Raises:
        BenchError: if a CPU does not exist.
        DeviceCpusUnavailable: if the level is `auto` and no CPU is left for the device.
    """
    level, cpus = str(factors.get(DEVICE_CPUS.name, ANY)), str(VM_CPUS.read_level(factors))
    if level != AUTO:
        return partition_cpus(level, cpus, topology.endpoints, online_cpus)
    if must_share_cpus:
        return partition_cpus(ANY, cpus, topology.endpoints, online_cpus)
    if not device_ports(topology):
        # The sender's CPU does the device's little work and the counting. A sink's own thread would have to
        # be woken for every few frames, and would lose those that arrive before it runs.
        return TesterAndDeviceCpus(assign_vm_cpus(cpus, topology.endpoints, online_cpus), frozenset())
    try:
        return partition_cpus(APART, cpus, topology.endpoints, online_cpus)
    except BenchError as error:
        raise DeviceCpusUnavailable(error.what, fix=error.fix) from error


def device_ports(topology: NetnsTopology) -> list[Endpoint]:
    """Return the device's ports to the VMs, in the form of endpoints with knobs."""
    if topology.shape.vswitch in (DIRECT, MACVLAN):
        return []
    labels = {device.interface: device.display_name for path in topology.ports_by_pair for device in path}
    return [Endpoint(labels[e.name], NO_SIDE, e.pair, e.name, "", "") for e in topology.endpoints]


def napi_threads_of_ports_and_vms(topology: NetnsTopology) -> list[dict[str, object]]:
    """Return the NAPI threads of the device's ports (`a1 switch0`) and of the VMs (`b1 sink0`).

    They have the form that the observer watches. Without threaded NAPI the list is empty, and the CPU that
    brings a frame processes it.
    """
    locations = [
        (port.interface, "switch", (topology.switch_namespace, port.interface))
        for port in device_ports(topology)
    ]
    locations += [(vm.name, "sink", vm.device.location) for vm in topology.endpoints]
    return [
        {"name": f"{name} {role}{number}", "tid": thread}
        for name, role, location in locations
        for number, thread in enumerate(netlink.napi_thread_ids(*location))
    ]


def configure_for_frames(
    topology: NetnsTopology,
    agents: Mapping[str, AgentClient],
    factors: Mapping[str, Level],
    partition: TesterAndDeviceCpus,
) -> dict[str, Any]:
    """Prepare the ports of tester and device for frames and pin their threads.

    Args:
        topology: The testbed's topology.
        agents: Agents of the VMs and, by their labels, of the device's ports.
        factors: The treatment's levels.
        partition: The division of the CPUs.

    Returns:
        The effective values that a trial stores.

    Raises:
        TreatmentRefused: if an offload did not take effect.
        DeviceCpusUnavailable: if threads could not be pinned.
    """
    ports = device_ports(topology)
    # A macvlan has no NAPI: its parent hands it packets on the sender's CPU.
    vms = [] if topology.shape.vswitch == MACVLAN else list(topology.endpoints)
    offload_settings = _offload_settings(ports, FRAME_OFFLOADS)
    offloads = knobs.apply_settings_and_read_knobs(offload_settings, ports, agents)
    knobs.check_settings(offload_settings, offloads)
    sinks = _assign_sink_cpus(vms, factors, partition)
    # Softirqs precede processes, so their threads do too, except before Open vSwitch, a process itself.
    has_priority = topology.shape.vswitch != OPEN_VSWITCH
    settings = _napi_settings(
        ports, {port.name: partition.device_cpus for port in ports}, factors, has_priority=has_priority
    )
    settings += _napi_settings(
        vms, {vm.name: sinks.get(vm.name, frozenset()) for vm in vms}, factors, has_priority=True
    )
    try:
        values = knobs.apply_settings_and_read_knobs(settings, [*vms, *ports], agents)
        knobs.check_settings(settings, values)
    except TreatmentRefused as refused:
        raise DeviceCpusUnavailable(refused.what, where=refused.where, fix=refused.fix) from refused
    anywhere = frozenset[int]().union(*partition.tester_cpus_by_endpoint.values())
    pinned_cpus = {str(values[port.name]["napi_cpus"]) for port in ports} | {
        threads.pin_thread_and_read_cpu_list(thread, partition.device_cpus or anywhere, "Open vSwitch")
        for thread in open_vswitch.switch_threads(topology)
    }
    return {
        DEVICE_CPUS.name: "; ".join(sorted(pinned_cpus - {""})) or ANY,
        "tester_cpus": knobs.merge_if_equal(
            {name: format_cpu_list(cpus) for name, cpus in partition.tester_cpus_by_endpoint.items()}
        ),
        "sink_cpus": {name: values[name]["napi_cpus"] for name in sinks},
        "port_offloads": {
            knob: knobs.merge_if_equal({name: each[knob] for name, each in offloads.items()})
            for knob in (FRAME_OFFLOADS if ports else ())
        },
    }


def _offload_settings(endpoints: Iterable[Endpoint], offloads: Mapping[str, bool]) -> list[KnobSetting]:
    return [
        KnobSetting(endpoint, knob, is_on, f"{knob} = {'on' if is_on else 'off'} for frames")
        for endpoint in endpoints
        for knob, is_on in offloads.items()
    ]


def _napi_settings(
    endpoints: Iterable[Endpoint],
    cpus: Mapping[str, frozenset[int]],
    factors: Mapping[str, Level],
    *,
    has_priority: bool,
) -> list[KnobSetting]:
    """Return the settings that pin NAPI threads; without CPUs they restore the kernel's default."""
    settings = []
    requested_by = f"{DEVICE_CPUS.name} = {factors[DEVICE_CPUS.name]}"
    for endpoint in endpoints:
        endpoint_cpus = cpus[endpoint.name]
        settings.append(KnobSetting(endpoint, "napi_cpus", format_cpu_list(endpoint_cpus), requested_by))
        if endpoint_cpus:
            settings.append(KnobSetting(endpoint, "napi_has_priority", has_priority, requested_by))
    return settings


def _assign_sink_cpus(
    vms: Sequence[Vm], factors: Mapping[str, Level], partition: TesterAndDeviceCpus
) -> dict[str, frozenset[int]]:
    """Return one CPU for the sink of each receiving VM, after the CPUs of the generators in turn.

    A sink that shares a CPU with a generator has priority there: frames that it does not take at once
    overflow its short ring and would count as lost by the device. The result is empty if the device has no
    CPUs of its own.
    """
    if not partition.device_cpus:
        return {}
    endpoints_by_direction = {"forward": ("a", "b"), "reverse": ("b", "a")}
    sending, receiving = endpoints_by_direction.get(str(factors[DIRECTION.name]), ("ab", "ab"))
    taken: Counter[frozenset[int]] = Counter()
    for vm in vms:
        if vm.side in sending:
            taken[partition.tester_cpus_by_endpoint[vm.name]] += int(factors[GENERATORS_PER_DIRECTION.name])
    sink_cpus = {}
    for vm in vms:
        vm_cpus = partition.tester_cpus_by_endpoint[vm.name]
        if vm.side in receiving:
            sink_cpus[vm.name] = frozenset({sorted(vm_cpus)[taken[vm_cpus] % len(vm_cpus)]})
            taken[vm_cpus] += 1
    return sink_cpus
