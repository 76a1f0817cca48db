"""Checks of a study's lab: hosts that do not form a testbed, and factors that the lab cannot set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from vnetbench.study.factors.guest_factors import GUEST_PAIRS
from vnetbench.study.factors.imported_factors import UNSPECIFIED, is_label
from vnetbench.study.factors.load_factors import DIRECTION, MESSAGE_SIZE, STREAMS
from vnetbench.study.factors.registry import FACTORS, backend_has_factor, format_level
from vnetbench.study.factors.testbed_factors import VM_CPUS, VM_PAIRS
from vnetbench.study.labs import (
    EXISTING_MACHINE_LABS,
    EXISTING_VM_LABS,
    IPERF3_BACKEND,
    LABS,
    LIBVIRT,
    VSPHERE,
)
from vnetbench.study.model import Study, TestbedSpec
from vnetbench.study.problems import KeyLocator, Problem
from vnetbench.study.workloads import WORKLOADS

DEFAULT_LOCAL_HOST_NAME = "here"
"""Name of the bench's own machine if the study names no local host."""
RESERVED_HOST_NAMES = ("host", "bench", "audit")
"""Names that a results file uses for other facts."""

MAX_IPERF3_STREAMS_PER_DIRECTION = 128
"""Maximum streams of one iperf3 test in each direction (docs/iperf3.md)."""
MAX_IPERF3_MESSAGE_BYTES = 1 << 20
_BUILT_TESTBED_KEYS = ("uplink", "shaper", "vswitch_mtu", "vf_interface")
"""Keys of testbeds that the bench builds; labs of existing machines do not have them."""

_CONNECTION_EXAMPLES = {LIBVIRT: "qemu:///system", VSPHERE: "vsphere://bench@vsphere.local@vc-01/"}

_IPERF3_WORKLOADS = " or ".join(f'"{name}"' for name, each in WORKLOADS.items() if each.can_use_iperf3)

_EQUIVALENT_FACTOR_IN_OTHER_LAB = {VM_PAIRS.name: GUEST_PAIRS.name, GUEST_PAIRS.name: VM_PAIRS.name}
"""Factors that take each other's place in another lab."""


def check_lab(study: Study, locate: KeyLocator) -> Iterator[Problem]:
    """Yield the problems of a study with its lab."""
    testbed = study.testbed
    yield from _check_factors_exist_in_lab(study, locate)
    yield from _check_vms(testbed, locate)
    if testbed.lab not in EXISTING_MACHINE_LABS:
        if testbed.existing_endpoints:
            yield locate("testbed", "host").make_problem(
                f"the lab {testbed.lab} creates its own endpoints", fix='write lab = "hosts" under [testbed]'
            )
        if testbed.load_destination_ports:
            yield locate("testbed", "ports").make_problem(
                "only labs of existing machines have the key ports, because others have no firewalls",
                fix="remove it",
            )
        return
    for key in _BUILT_TESTBED_KEYS:
        if getattr(testbed, key) != getattr(TestbedSpec(), key):
            yield locate("testbed", key).make_problem(
                f"the lab {testbed.lab} does not support {key}, because it builds no network", fix="remove it"
            )
    workload = WORKLOADS[study.workload]
    has_frames = workload.carries_frames
    yield from _check_each_host(testbed, has_frames, locate)
    if testbed.backend != IPERF3_BACKEND:
        yield from _check_host_pairs(testbed, has_frames, locate)
        return
    yield from _check_iperf3_hosts(testbed, locate)
    if not workload.can_use_iperf3:
        yield locate("workload").make_problem(
            f"an iperf3 server does not support the workload {study.workload}",
            fix=f"write workload = {_IPERF3_WORKLOADS}",
        )
    yield from _check_iperf3_levels(study, locate)


def _check_vms(testbed: TestbedSpec, locate: KeyLocator) -> Iterator[Problem]:
    """Yield keys of VMs in other labs, and what a lab of existing VMs lacks."""
    hosts = testbed.existing_endpoints
    if testbed.lab not in EXISTING_VM_LABS:
        labs = " or ".join(f'"{lab}"' for lab in EXISTING_VM_LABS)
        if testbed.connection:
            yield locate("testbed", "connection").make_problem(
                f"the lab {testbed.lab} changes no VM", fix=f"remove it, or write lab = {labs}"
            )
        for number, host in enumerate(hosts):
            for key in ("domain", "adapter_mac"):
                if getattr(host, key):
                    yield locate("testbed", "host", number, key).make_problem(
                        f"the lab {testbed.lab} changes no VM", fix=f"remove it, or write lab = {labs}"
                    )
        return
    if not testbed.connection:
        yield locate("testbed", "lab").make_problem(
            f"the lab {testbed.lab} needs the hypervisor",
            fix=f'write connection = "{_CONNECTION_EXAMPLES[testbed.lab]}"',
        )
    if not any(host.domain for host in hosts):
        yield locate("testbed", "host").make_problem(
            f"the lab {testbed.lab} has no VM to change",
            fix='write domain = "NAME" under a [[testbed.host]], or lab = "hosts"',
        )
    domains = Counter(host.domain for host in hosts if host.domain)
    for number, host in enumerate(hosts):
        if host.iperf3_server:
            yield locate("testbed", "host", number, "iperf3").make_problem(
                f"the lab {testbed.lab} needs an agent on each host", fix="write ssh instead of iperf3"
            )
        if host.domain and domains[host.domain] > 1:
            yield locate("testbed", "host", number, "domain").make_problem(
                f"another host is the same VM, {host.domain}", fix="name every VM only once"
            )
        if host.adapter_mac and not host.domain:
            yield locate("testbed", "host", number, "adapter_mac").make_problem(
                "adapter_mac names an adapter of a VM, but the host has no domain", fix="write domain too"
            )


def _check_each_host(testbed: TestbedSpec, has_frames: bool, locate: KeyLocator) -> Iterator[Problem]:
    """Yield hosts without exactly one way to reach them, and hosts that are alike."""
    names = Counter(host.name for host in testbed.existing_endpoints)
    if testbed.backend == IPERF3_BACKEND and not any(
        host.is_bench_machine for host in testbed.existing_endpoints
    ):
        names[DEFAULT_LOCAL_HOST_NAME] += 1
    destinations = Counter(
        host.ssh_destination for host in testbed.existing_endpoints if host.ssh_destination
    )
    machines = Counter(host.machine_key for host in testbed.existing_endpoints)
    ports = Counter((host.machine_key, host.interface) for host in testbed.existing_endpoints)
    for number, host in enumerate(testbed.existing_endpoints):
        if names[host.name] > 1 or host.name in RESERVED_HOST_NAMES:
            yield locate("testbed", "host", number, "name").make_problem(
                f'another endpoint has the name "{host.name}"', fix="choose another name"
            )
        if bool(host.ssh_destination) + bool(host.iperf3_server) + host.is_bench_machine != 1:
            yield locate("testbed", "host", number).make_problem(
                f"the host {host.name} needs exactly one of the keys ssh, iperf3 and local",
                fix="write ssh with a destination, iperf3 with the server's address, "
                "or local = true for this machine",
            )
        if host.ssh_destination and destinations[host.ssh_destination] > 1 and not has_frames:
            yield locate("testbed", "host", number, "ssh").make_problem(
                f"another host has the same destination, {host.ssh_destination}",
                fix="name every machine only once",
            )
        is_shared = has_frames and machines[host.machine_key] > 1
        if is_shared and (host.interface is None or ports[host.machine_key, host.interface] > 1):
            yield locate("testbed", "host", number).make_problem(
                f"{host.name} and another host are the same machine, so each needs its own interface",
                fix='write a different interface for each of them, such as interface = "ens192"',
            )
        if host.next_hop_mac and not has_frames:
            yield locate("testbed", "host", number, "next_hop").make_problem(
                "next_hop applies to frame workloads only, because other load uses the system's routes",
                fix="remove it",
            )
        for key in ("interface", "address"):
            if getattr(host, key) and host.iperf3_server:
                yield locate("testbed", "host", number, key).make_problem(
                    f"the key {key} applies only to hosts that run an agent",
                    fix="write it under a [[testbed.host]] with local = true or ssh",
                )


def _check_host_pairs(testbed: TestbedSpec, has_frames: bool, locate: KeyLocator) -> Iterator[Problem]:
    count, local_count = (
        len(testbed.existing_endpoints),
        sum(host.is_bench_machine for host in testbed.existing_endpoints),
    )
    if count < 2 or count % 2:
        yield locate("testbed", "host").make_problem(
            f"the study has {count} host{'' if count == 1 else 's'}, but hosts work in pairs",
            fix='write [[testbed.host]] twice, each with name = "web-01" and ssh = "root@web-01"; '
            "one of them can have local = true instead of ssh",
        )
    if local_count > 1 and not has_frames:
        yield locate("testbed", "host").make_problem(
            "more than one host is this machine", fix="write local = true under only one host"
        )


def _check_iperf3_hosts(testbed: TestbedSpec, locate: KeyLocator) -> Iterator[Problem]:
    servers = [host for host in testbed.existing_endpoints if host.iperf3_server]
    others = [host for host in testbed.existing_endpoints if host not in servers]
    if len(servers) != 1 or len(others) > 1 or any(host.ssh_destination for host in others):
        yield locate("testbed", "host").make_problem(
            f"the study has {len(servers)} iperf3 server{'' if len(servers) == 1 else 's'} and "
            f"{len(others)} other host{'' if len(others) == 1 else 's'}; a study needs exactly one server",
            fix='write one [[testbed.host]] with name = "esx-07" and iperf3 = "192.0.2.7"; a second one can '
            "have local = true",
        )
    if testbed.load_destination_ports:
        yield locate("testbed", "ports").make_problem(
            "ports has no effect with an iperf3 server, because the load goes to the server's own port",
            fix="remove it",
        )


def _check_factors_exist_in_lab(study: Study, locate: KeyLocator) -> Iterator[Problem]:
    testbed = study.testbed
    available = [name for name in FACTORS if backend_has_factor(testbed.backend, name)]
    for factor in study.factors:
        if is_label(factor.name):
            yield locate("factors", factor.name).make_problem(
                f"{factor.name} is a label, which only imported results have", fix="remove it"
            )
            continue
        if UNSPECIFIED in factor.levels:
            yield locate("factors", factor.name).make_problem(
                f'only imported results have the level "{UNSPECIFIED}"', fix="remove it"
            )
            continue
        if factor.name in available:
            continue
        other_labs = [lab for lab in LABS if lab != testbed.lab and backend_has_factor(lab, factor.name)]
        if (equivalent := _EQUIVALENT_FACTOR_IN_OTHER_LAB.get(factor.name)) in available:
            fix = f'did you mean "{equivalent}"?'
        elif other_labs and not testbed.existing_endpoints:
            choices = " or ".join(f'"{lab}"' for lab in other_labs)
            fix = f"write lab = {choices} under [testbed]"
        else:
            fix = f"remove this factor. The lab has the factors {', '.join(available)}"
        backend = (
            "with an iperf3 server" if testbed.backend == IPERF3_BACKEND else f"in the lab {testbed.lab}"
        )
        yield locate("factors", factor.name).make_problem(f"{factor.name} cannot be set {backend}", fix=fix)


def _check_iperf3_levels(study: Study, locate: KeyLocator) -> Iterator[Problem]:
    for factor in study.factors:
        location = locate("factors", factor.name)
        for level in factor.levels:
            text = format_level(factor.name, level)
            if factor.name == STREAMS.name and int(level) > MAX_IPERF3_STREAMS_PER_DIRECTION:
                yield location.make_problem(
                    f"an iperf3 server does not support {text} streams",
                    fix=f"use at most {MAX_IPERF3_STREAMS_PER_DIRECTION} streams",
                )
            if factor.name == MESSAGE_SIZE.name and int(level) > MAX_IPERF3_MESSAGE_BYTES:
                yield location.make_problem(
                    f"an iperf3 server does not support messages of {text}",
                    fix="use messages of at most 1 MiB",
                )
            if factor.name == DIRECTION.name and "/" in text:
                yield location.make_problem(
                    "an iperf3 server needs the same number of streams in each direction, or one direction",
                    fix="write forward, reverse or both",
                )
            if factor.name == VM_CPUS.name and "/" in text:
                yield location.make_problem(
                    "the bench cannot set the CPUs of an iperf3 server",
                    fix=f'name only the CPUs of this endpoint: "{text.partition("/")[0]}"',
                )
