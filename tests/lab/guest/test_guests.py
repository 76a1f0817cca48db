"""Tests with real guests under the accelerator of this machine: start, trials, faults, removal."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from bench.redteam.target import process_name
from tests.faults.bench_process import PATIENCE_S, run, start
from tests.lab.guest.guest_audit import check_audit_of_guests
from tests.lab.ssh_hosts import wait_until
from tests.machine import FIRST_CPU, USABLE_CPUS
from tests.own_testbeds import list_own_testbeds
from vnetbench.agents.client import PROTOCOL_VERSION, AgentClient, AgentError
from vnetbench.campaign.frame_counts import sum_endpoint_counts
from vnetbench.campaign.instrument import LabInstrument
from vnetbench.campaign.trial import TrialLoad
from vnetbench.lab import netlink, registry
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.lab.guest import hardware, snapshot, watchdog
from vnetbench.lab.guest.hardware import BootImages, Hardware
from vnetbench.lab.guest.lab import QemuLab, guest_shape
from vnetbench.lab.guest.prerequisites import GuestPrerequisites, prepare_guests
from vnetbench.lab.guest.qemu_process import QemuEnded
from vnetbench.lab.guest.testbed import GuestTestbed
from vnetbench.lab.links import netem
from vnetbench.lab.netns.topology import Vm
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.labs import QEMU
from vnetbench.study.model import Level, TestbedSpec
from vnetbench.study.workloads import TCP_STREAM

pytestmark = pytest.mark.lab

SPEC = TestbedSpec(lab=QEMU)
TRIAL_S = 0.6
VMADDR_CID_LOCAL = 1
STUDY = 'title = "x"\n[testbed]\nlab = "qemu"\n[factors]\n'

CreateTestbed = Callable[..., GuestTestbed]


def levels(**factors: Level) -> dict[str, Level]:
    return complete_levels(factors, TCP_STREAM, QEMU)


@pytest.fixture(scope="session")
def prerequisites() -> GuestPrerequisites:
    return prepare_guests(
        [guest_shape(levels(adapter=adapter), SPEC) for adapter in ("virtio-net", "vmxnet3")]
    )


@pytest.fixture
def messages() -> list[str]:
    return []


@pytest.fixture
def create_testbed(prerequisites: GuestPrerequisites, messages: list[str]) -> Iterator[CreateTestbed]:
    lab = QemuLab(SPEC, "a test", prerequisites, messages.append)
    testbeds: list[GuestTestbed] = []

    def create(**factors: Level) -> GuestTestbed:
        testbeds.append(lab.create_testbed(f"t-guests-{len(testbeds)}", lab.testbed_shape(levels(**factors))))
        return testbeds[-1]

    yield create
    for testbed in testbeds:
        if not testbed.is_closed:
            testbed.close()


def campaign_guests() -> set[int]:
    """Return the process ids of QEMUs that belong to campaigns on this machine."""
    entries = [entry.name for entry in list_own_testbeds() if entry.name.startswith("run-")]
    found = {pid for name in entries for pid in registry.testbed_pids(name)}
    return {pid for pid in found if process_name(pid).startswith("qemu")}


def testbed_label(pid: int) -> str:
    """Return the label of a process's testbed; empty for an ended process that was not reaped."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return ""
    return next((v.decode() for v in variables if v.startswith(registry.PROCESS_LABEL.encode())), "")


def test_a_trial_between_guests_is_measured_with_the_levels_of_its_treatment(
    prerequisites: GuestPrerequisites,
) -> None:
    lab = LabInstrument(QemuLab(SPEC, "a test", prerequisites), SPEC)
    factors = levels(
        mtu=4000, vcpu_pin="spread", emulator_pin="own", rx_ring=128, irq_pin="0", source_ports="20000-20001"
    )
    try:
        done = lab.measure(TrialLoad(factors, TRIAL_S, 0.1), lambda: False)
        learned = lab.take_new_facts()
    finally:
        lab.close()
    effective = done.measurement.effective
    assert effective["accelerator"] == prerequisites.accelerator.name
    assert effective["source_ports"] == {"a1": [20000]}
    assert (effective["path_mtu_proved"], effective["rx_ring"], effective["vswitch_mtu"]) == (4000, 128, 4000)
    first, second = ([str(cpu)] for cpu in (USABLE_CPUS[0], USABLE_CPUS[1 % len(USABLE_CPUS)]))
    assert effective["vcpu_pin"] == ({"a1": first, "b1": second} if first != second else first)
    assert {each.name: each.bytes_received for each in done.measurement.endpoints}["b1"] > 0
    (facts,) = learned.testbed_descriptions.values()
    assert facts["guest_kernel"] == prerequisites.kernel.release
    check_audit_of_guests(learned.facts_by_subject, str(factors["adapter"]))


def test_a_switch_or_vnic_with_a_small_mtu_is_named(create_testbed: CreateTestbed) -> None:
    testbed = create_testbed()
    factors = levels(mtu=3000)
    with pytest.raises(TreatmentRefused) as refused:
        testbed.set_knobs_and_prove_paths(factors, TestbedSpec(lab=QEMU, vswitch_mtu=1500))
    assert "port a1 of vSwitch sw0 has MTU 1500" in refused.value.what
    assert "a1 eth0" not in refused.value.what
    assert testbed.set_knobs_and_prove_paths(factors, SPEC)["path_mtu_proved"] == 3000
    testbed.agents["b1"].call("knob.set", interface="eth0", knob="mtu", value=1400)
    with pytest.raises(TreatmentRefused, match=r"b1 eth0 \(virtio-net\) has MTU 1400"):
        testbed.prove_paths(3000)


def test_a_delay_line_between_the_switches_delays_guests(
    create_testbed: CreateTestbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(netem, "is_available", lambda: False)
    testbed = create_testbed(link_delay=0.02)
    assert str(testbed.topology.shape) == "virtio-net delay_line"
    found = testbed.set_knobs_and_prove_paths(levels(link_delay=0.02, link_rate=10**8, mtu=2000), SPEC)
    assert (found["link_delay"], found["link_rate"], found["path_mtu_proved"]) == (0.02, 10**8, 2000)
    assert found["link_impairment_backend"] == "delay line"
    assert min(found["path_rtt_us"]) >= 40_000
    watched = testbed.observer_targets()["threads"]
    assert isinstance(watched, list)
    assert {"delay line 1 forward", "delay line 1 reverse"} < {each["name"] for each in watched}


def test_a_vmxnet3_with_jumbo_frames_keeps_its_address(create_testbed: CreateTestbed) -> None:
    """Check the MAC address, which QEMU's vmxnet3 resets when its driver changes the MTU."""
    testbed = create_testbed(adapter="vmxnet3")
    for mtu in (9000, 1500, 9000):
        assert (
            testbed.set_knobs_and_prove_paths(levels(adapter="vmxnet3", mtu=mtu), SPEC)["path_mtu_proved"]
            == mtu
        )


@pytest.mark.parametrize("role", ["router", "bridge"])
@pytest.mark.parametrize("ip_version", ["4", "6"])
def test_a_guest_forwards_between_two_endpoints_on_the_host(
    create_testbed: CreateTestbed, role: str, ip_version: str
) -> None:
    testbed = create_testbed(role=role)
    factors = levels(role=role, mtu=2000, ip_version=ip_version, gro="off")
    assert testbed.set_knobs_and_prove_paths(factors, SPEC)["path_mtu_proved"] == 2000
    for interface in ("eth0", "eth1"):
        answer = testbed.agents["g1"].call("knob.get", interface=interface, knobs=["gro", "mtu"])
        assert answer["values"] == {"gro": False, "mtu": 2000}


@pytest.mark.parametrize(("role", "adapter"), [("router", "virtio-net"), ("bridge", "vmxnet3")])
def test_frames_through_a_guest_start_and_end_at_its_taps(
    prerequisites: GuestPrerequisites, role: str, adapter: str
) -> None:
    factors = complete_levels({"role": role, "adapter": adapter, "vcpu_pin": str(FIRST_CPU)}, "frames", QEMU)
    testbed = QemuLab(SPEC, "a test", prerequisites).create_testbed(
        "t-guests-taps", guest_shape(factors, SPEC)
    )
    try:
        assert testbed.set_knobs_and_prove_paths(factors, SPEC)["path_mtu_proved"] == 1500
        for vm, nic in zip(testbed.topology.vms, testbed.topology.guests[0].nics, strict=True):
            facts = testbed.agents[vm.name].call("agent.facts")["interfaces"]
            assert {each["driver"] for each in facts if each["name"] == "eth0"} == {"tun"}
            assert testbed.next_hop_mac(vm, "4") == (nic.mac if role == "router" else peer_mac(testbed, vm))
        free_cpus = testbed.online_cpus - {FIRST_CPU} or testbed.online_cpus
        assert testbed.load_cpus_in_endpoint_numbering(factors)["a1"] == free_cpus
        assert testbed.rejected_frame_outcome == "lost"
    finally:
        testbed.close()


def test_frames_pass_a_guest_that_routes(prerequisites: GuestPrerequisites) -> None:
    factors = complete_levels({"role": "router", "frame_load": 200.0}, "frames", QEMU)
    lab = LabInstrument(QemuLab(SPEC, "a test", prerequisites), SPEC)
    try:
        endpoints = lab.measure(
            TrialLoad(factors, TRIAL_S, 0.1, "frames"), lambda: False
        ).measurement.endpoints
    finally:
        lab.close()
    counts = sum_endpoint_counts(endpoints, factors)
    assert counts.total_sent >= counts.total_received > 0


def peer_mac(testbed: GuestTestbed, vm: Vm) -> str:
    (peer,) = (each for each in testbed.topology.vms if each is not vm)
    return netlink.interface_mac(*peer.device.location)


def test_a_guest_and_the_host_form_a_pair(create_testbed: CreateTestbed) -> None:
    testbed = create_testbed(role="guest-to-host")
    assert (
        testbed.set_knobs_and_prove_paths(levels(role="guest-to-host", mtu=1500), SPEC)["path_mtu_proved"]
        == 1500
    )
    assert set(testbed.load_cpus_in_endpoint_numbering({})) == {"a1", "b1"}


def test_unused_testbeds_are_paused(create_testbed: CreateTestbed) -> None:
    first = create_testbed()
    second = create_testbed(role="guest-to-host")

    def states(testbed: GuestTestbed) -> set[str]:
        return {str(each.process.monitor.execute("query-status")["status"]) for each in testbed.running}

    assert (states(first), states(second)) == ({"paused"}, {"running"})
    first.set_knobs_and_prove_paths(levels(), SPEC)
    assert (states(first), states(second)) == ({"running"}, {"paused"})


def test_a_killed_guest_is_reported_and_can_be_replaced(prerequisites: GuestPrerequisites) -> None:
    lab = QemuLab(SPEC, "a test", prerequisites)
    testbed = lab.create_testbed("t-guests-killed", guest_shape(levels(), SPEC))
    try:
        os.kill(testbed.running[1].process.pid, signal.SIGKILL)
        with pytest.raises(AgentError, match=r"b1: the agent ended .QEMU was killed by SIGKILL"):
            testbed.agents["b1"].call("agent.hello")
    finally:
        testbed.close()
    lab.create_testbed("t-guests-again", guest_shape(levels(), SPEC)).close()


def test_a_hung_guest_is_ended_and_reported(
    create_testbed: CreateTestbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    testbed = create_testbed()
    answering = stop_watching(testbed, "b1")
    monkeypatch.setattr(watchdog, "CHECK_INTERVAL_S", 0.1)
    testbed.running[0].process.monitor.execute("stop")
    with pytest.raises(AgentError, match="sent nothing for") as hung:
        testbed.agents["a1"].call("agent.hello")
    assert hung.value.has_agent_ended
    while answering.consecutive_silent_checks < watchdog.PING_AFTER_CHECKS:
        watchdog._check_guest(answering)
    wait_until(lambda: answering.transport.receive_count > answering.last_receive_count)
    for _ in range(watchdog.HUNG_AFTER_CHECKS - watchdog.PING_AFTER_CHECKS):
        watchdog._check_guest(answering)
    assert testbed.agents["b1"].call("agent.hello")["protocol"] == PROTOCOL_VERSION


def stop_watching(testbed: GuestTestbed, name: str) -> watchdog._WatchedGuest:
    """Take a guest from the watchdog, because a busy machine may answer after several short checks."""
    running = testbed._watchdog
    assert running is not None
    (process,) = (each.process for each in testbed.running if each.guest.name == name)
    with running._lock:
        (watched,) = (each for each in running._guests if each.process is process)
        running._guests.remove(watched)
    return watched


def test_a_kernel_panic_is_reported_from_its_first_line(
    prerequisites: GuestPrerequisites, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Hardware, "can_snapshot", False)
    monkeypatch.setattr(hardware, "BOOT_OPTIONS", "console=ttyS0 loglevel=5 panic=-1 rdinit=/no-such-program")
    lab = QemuLab(SPEC, "a test", prerequisites)
    with pytest.raises(QemuEnded, match=r"lines on the guest's console are Kernel panic - not syncing"):
        lab.create_testbed("t-guests-panic", guest_shape(levels(role="guest-to-host"), SPEC))


def test_a_broken_snapshot_is_discarded_and_a_guest_boots(
    prerequisites: GuestPrerequisites,
    create_testbed: CreateTestbed,
    messages: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "broken.state"
    path.write_bytes(b"no snapshot")

    def fixed_path(version: str, requested: Hardware, software: BootImages) -> Path:
        return path

    monkeypatch.setattr(snapshot, "snapshot_path", fixed_path)
    testbed = create_testbed(role="guest-to-host")
    assert testbed.set_knobs_and_prove_paths(levels(role="guest-to-host"), SPEC)["path_mtu_proved"] == 1500
    assert "discarded the snapshot of a guest that could not be resumed" in messages[0]
    assert {each.start_method for each in testbed.running} == {"resume"}, (
        "a guest booted once more and was saved"
    )
    assert path.stat().st_size > 1e6


def test_lab_clean_removes_the_guests_of_a_killed_bench(
    tmp_path: Path, prerequisites: GuestPrerequisites
) -> None:
    study = tmp_path / "guests.toml"
    study.write_text(f'{STUDY}mtu = 1500\n[timing]\nduration = "30 s"\n')
    bench = start("run", study, "-o", tmp_path / "guests.vnb")
    try:
        deadline = time.monotonic() + PATIENCE_S
        guests: set[int] = set()
        while len(guests) < 2 and time.monotonic() < deadline and bench.poll() is None:
            time.sleep(0.1)
            guests = campaign_guests()
        assert len(guests) == 2
    finally:
        bench.kill()
        bench.wait()
    code, output = run("lab", "clean")
    assert code == 0 and "Removed run-" in output
    assert not [pid for pid in guests if testbed_label(pid)]
    assert not [name for name in netlink.list_namespaces() if name.startswith("vnb.run-")]
    assert not list(registry.REGISTRY_FOLDER.glob("run-*"))


def test_lab_exec_names_the_console_of_a_guest(create_testbed: CreateTestbed) -> None:
    create_testbed(role="guest-to-host")
    code, output = run("lab", "exec", "t-guests-0", "a1", "--", "ls")
    assert code == 2 and "a1.console" in output
    listing = subprocess.run(
        ["ip", "netns", "exec", "vnb.t-guests-0.sw", "ls", "/sys/class/net"], capture_output=True, text=True
    )
    assert "a1" in listing.stdout


def test_a_missing_qemu_is_reported_with_the_fix(tmp_path: Path) -> None:
    study = tmp_path / "guests.toml"
    study.write_text(f"{STUDY}mtu = 1500\n")
    empty: Mapping[str, str] = {"PATH": str(tmp_path)}
    code, output = run("run", study, "-o", tmp_path / "guests.vnb", env=empty)
    assert code == 2 and "qemu-system-x86_64, which runs the guests, is not installed" in output
    assert "apt-get install qemu-system-x86" in output
    assert not (tmp_path / "guests.vnb").exists()


def test_missing_adapters_and_memory_are_reported_before_anything_runs(
    tmp_path: Path, prerequisites: GuestPrerequisites
) -> None:
    missing = {
        "igb": "igb" not in prerequisites.qemu.devices,
        "virtio-net-vhost": not Path("/dev/vhost-net").exists(),
    }
    study = tmp_path / "guests.toml"
    for adapter, is_missing in missing.items():
        if is_missing:
            study.write_text(f'{STUDY}adapter = "{adapter}"\n')
            code, output = run("run", study, "-o", tmp_path / "guests.vnb")
            assert code == 2 and "factors.adapter" in output and "fix:" in output
    study.write_text(f"{STUDY}guests = 64\nvcpus = 64\n")
    code, output = run("run", study, "-o", tmp_path / "guests.vnb")
    assert code == 2 and "128 guests need" in output


def test_a_guest_carries_streams_over_vsock(create_testbed: CreateTestbed) -> None:
    """Use the guest's own loopback, since a connection to the host needs vhost_vsock there."""
    agent = create_testbed().agents["a1"]
    # On a busy machine, the source may wait for a CPU for longer than a short trial lasts.
    for duration_s in (TRIAL_S, 60 * TRIAL_S):
        bytes_by_trial = run_vsock_stream(agent, duration_s)
        if bytes_by_trial["source"]:
            break
    assert bytes_by_trial["sink"] == bytes_by_trial["source"] > 0


def run_vsock_stream(agent: AgentClient, duration_s: float) -> dict[str, int]:
    """Run a stream from an agent to itself, and return the bytes that each end has moved."""
    request: dict[str, Any] = {
        "workload": "tcp_stream",
        "secret": "00" * 16,
        "receive": "copy",
        "send": "copy",
    }
    sink = {**request, "trial": "sink", "streams": [{"id": 0, "role": "sink"}], "listen": {"vsock": {}}}
    port = agent.call("trial.prepare", **sink)["port"]
    target = {"vsock": {"cid": VMADDR_CID_LOCAL, "port": port}}
    source = {**request, "trial": "source", "streams": [{"id": 0, "role": "source"}], "connect": target}
    (stream,) = agent.call("trial.prepare", **source)["streams"]
    assert stream["transport"] == "vsock"
    agent.call("trial.ready", trial="sink")
    for trial in ("sink", "source"):
        agent.call("trial.start", trial=trial, duration_s=duration_s)
    ended: dict[str, int] = {}
    while len(ended) < 2:
        method, params = agent.events.get(timeout=duration_s + 60)
        if method == "trial.end":
            ended[params["trial"]] = params["bytes_sent"] + params["bytes_received"]
    return ended
