"""Real guests, under whatever runs them here: started, measured between, broken, and removed."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.faults.bench_process import run, start
from vnetbench.agents.client import AgentError
from vnetbench.campaign.frame_counts import sum_endpoint_counts
from vnetbench.campaign.instrument import LabInstrument
from vnetbench.campaign.trial import TrialLoad
from vnetbench.lab import netlink, registry
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.lab.guest import hardware, snapshot, watchdog
from vnetbench.lab.guest.hardware import Hardware, Software
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

ASKED = TestbedSpec(lab=QEMU)
TRIAL_S = 0.6
VMADDR_CID_LOCAL = 1
STUDY = 'title = "x"\n[testbed]\nlab = "qemu"\n[factors]\n'

Raise = Callable[..., GuestTestbed]


def levels(**factors: Level) -> dict[str, Level]:
    return complete_levels(factors, TCP_STREAM, QEMU)


@pytest.fixture(scope="session")
def ready() -> GuestPrerequisites:
    return prepare_guests(
        [guest_shape(levels(adapter=adapter), ASKED) for adapter in ("virtio-net", "vmxnet3")]
    )


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def raise_bed(ready: GuestPrerequisites, said: list[str]) -> Iterator[Raise]:
    lab = QemuLab(ASKED, "a test", ready, said.append)
    raised: list[GuestTestbed] = []

    def one(**factors: Level) -> GuestTestbed:
        raised.append(lab.create_testbed(f"t-guests-{len(raised)}", lab.shape(levels(**factors))))
        return raised[-1]

    yield one
    for bed in raised:
        if not bed.is_closed:
            bed.close()


def of_campaigns() -> set[int]:
    """The QEMUs of the campaigns that are at work here."""
    entries = [entry.name for entry in registry.list_testbeds() if entry.name.startswith("run-")]
    found = {pid for name in entries for pid in registry.testbed_processes(name)}
    return {pid for pid in found if "qemu" in Path(f"/proc/{pid}/comm").read_text()}


def label_of(pid: int) -> str:
    """The testbed that a process belongs to; empty for one that has ended, though nobody has heard of it."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return ""
    return next((v.decode() for v in variables if v.startswith(registry.PROCESS_LABEL.encode())), "")


def test_a_trial_between_guests_is_measured_with_what_the_treatment_asks(ready: GuestPrerequisites) -> None:
    lab = LabInstrument(QemuLab(ASKED, "a test", ready), ASKED)
    factors = levels(mtu=4000, vcpu_pin="spread", emulator_pin="own", rx_ring=128, irq_pin="0")
    try:
        done = lab.measure(TrialLoad(factors, TRIAL_S, 0.1), lambda: False)
        learned = lab.take_new_facts()
    finally:
        lab.close()
    effective = done.measurement.effective
    assert effective["accelerator"] == ready.accelerator.name
    assert (effective["path_mtu_proved"], effective["rx_ring"], effective["vswitch_mtu"]) == (4000, 128, 4000)
    online = sorted(os.sched_getaffinity(0))
    assert effective["vcpu_pin"] == {"a1": [str(online[0])], "b1": [str(online[1 % len(online)])]}
    received = {side.name: side.bytes_received for side in done.measurement.endpoints}
    assert received["b1"] > 0
    (facts,) = learned.testbeds.values()
    assert facts["guest_kernel"] == ready.kernel.release
    assert learned.facts["a1"]["hostname"] == "a1"


def test_a_narrow_switch_and_the_vnics_behind_it_are_named(raise_bed: Raise) -> None:
    bed = raise_bed()
    factors = levels(mtu=3000)
    with pytest.raises(TreatmentRefused) as refused:
        bed.apply(factors, TestbedSpec(lab=QEMU, vswitch_mtu=1500))
    assert "port a1 of vSwitch sw0 has MTU 1500" in refused.value.what
    assert "a1 eth0" not in refused.value.what
    assert bed.apply(factors, ASKED)["path_mtu_proved"] == 3000
    bed.agents["b1"].call("knob.set", interface="eth0", knob="mtu", value=1400)
    with pytest.raises(TreatmentRefused, match=r"b1 eth0 \(virtio-net\) has MTU 1400"):
        bed.prove_paths(3000)


def test_a_delay_line_between_the_switches_delays_guests(
    raise_bed: Raise, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(netem, "is_there", lambda: False)
    bed = raise_bed(link_delay=0.02)
    assert str(bed.topology.shape) == "virtio-net line"
    found = bed.apply(levels(link_delay=0.02, link_rate=10**8, mtu=2000), ASKED)
    assert (found["link_delay"], found["link_rate"], found["path_mtu_proved"]) == (0.02, 10**8, 2000)
    assert found["link_impaired_by"] == "delay line"
    assert min(found["path_rtt_us"]) >= 40_000
    watched = bed.observer_targets()["threads"]
    assert isinstance(watched, list)
    assert {"delay line 1 forward", "delay line 1 reverse"} < {each["name"] for each in watched}


def test_a_vmxnet3_with_jumbo_frames_keeps_its_address(raise_bed: Raise) -> None:
    """QEMU's vmxnet3 takes up its hardware's address again when the driver resets it for another MTU."""
    bed = raise_bed(adapter="vmxnet3")
    for mtu in (9000, 1500, 9000):
        assert bed.apply(levels(adapter="vmxnet3", mtu=mtu), ASKED)["path_mtu_proved"] == mtu


@pytest.mark.parametrize("role", ["router", "bridge"])
@pytest.mark.parametrize("ip_version", ["4", "6"])
def test_a_guest_between_two_ends_of_the_host_forwards(raise_bed: Raise, role: str, ip_version: str) -> None:
    bed = raise_bed(role=role)
    factors = levels(role=role, mtu=2000, ip_version=ip_version, gro="off")
    assert bed.apply(factors, ASKED)["path_mtu_proved"] == 2000
    for interface in ("eth0", "eth1"):
        answer = bed.agents["g1"].call("knob.get", interface=interface, knobs=["gro", "mtu"])
        assert answer["values"] == {"gro": False, "mtu": 2000}


@pytest.mark.parametrize(("role", "adapter"), [("router", "virtio-net"), ("bridge", "vmxnet3")])
def test_a_guest_that_frames_are_sent_through_has_the_ends_as_its_taps(
    ready: GuestPrerequisites, role: str, adapter: str
) -> None:
    factors = complete_levels({"role": role, "adapter": adapter, "vcpu_pin": "0"}, "frames", QEMU)
    bed = QemuLab(ASKED, "a test", ready).create_testbed("t-guests-taps", guest_shape(factors, ASKED))
    try:
        assert bed.apply(factors, ASKED)["path_mtu_proved"] == 1500
        for vm, nic in zip(bed.topology.vms, bed.topology.guests[0].nics, strict=True):
            facts = bed.agents[vm.name].call("agent.facts")["interfaces"]
            assert {each["driver"] for each in facts if each["name"] == "eth0"} == {"tun"}
            assert bed.next_hop_mac(vm, "4") == (nic.mac if role == "router" else mac_of_other(bed, vm))
        assert bed.load_cpus(factors)["a1"] == bed.online_cpus - {0}
        assert bed.rejected_frame_outcome == "lost"
    finally:
        bed.close()


def test_frames_pass_a_guest_that_routes(ready: GuestPrerequisites) -> None:
    factors = complete_levels({"role": "router", "frame_load": 200.0}, "frames", QEMU)
    lab = LabInstrument(QemuLab(ASKED, "a test", ready), ASKED)
    try:
        sides = lab.measure(TrialLoad(factors, TRIAL_S, 0.1, "frames"), lambda: False).measurement.endpoints
    finally:
        lab.close()
    counts = sum_endpoint_counts(sides, factors)
    assert counts.total_sent >= counts.total_received > 0


def mac_of_other(bed: GuestTestbed, vm: Vm) -> str:
    (other,) = (each for each in bed.topology.vms if each is not vm)
    return netlink.interface_mac(*other.device.location)


def test_a_guest_speaks_with_the_host(raise_bed: Raise) -> None:
    bed = raise_bed(role="guest-to-host")
    assert bed.apply(levels(role="guest-to-host", mtu=1500), ASKED)["path_mtu_proved"] == 1500
    assert set(bed.load_cpus({})) == {"a1", "b1"}


def test_testbeds_that_are_kept_are_stopped_while_another_is_used(raise_bed: Raise) -> None:
    first = raise_bed()
    second = raise_bed(role="guest-to-host")

    def states(bed: GuestTestbed) -> set[str]:
        return {str(each.process.monitor.execute("query-status")["status"]) for each in bed.running}

    assert (states(first), states(second)) == ({"paused"}, {"running"})
    first.apply(levels(), ASKED)
    assert (states(first), states(second)) == ({"running"}, {"paused"})


def test_a_guest_that_is_killed_is_told_with_its_end_and_another_comes(ready: GuestPrerequisites) -> None:
    lab = QemuLab(ASKED, "a test", ready)
    bed = lab.create_testbed("t-guests-killed", guest_shape(levels(), ASKED))
    try:
        os.kill(bed.running[1].process.pid, signal.SIGKILL)
        with pytest.raises(AgentError, match=r"b1: the agent ended .its QEMU was killed by SIGKILL"):
            bed.agents["b1"].call("agent.hello")
    finally:
        bed.close()
    lab.create_testbed("t-guests-again", guest_shape(levels(), ASKED)).close()


def test_a_guest_that_hangs_is_ended_and_told(raise_bed: Raise, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "LOOK_EVERY_S", 0.1)
    bed = raise_bed()
    bed.running[0].process.monitor.execute("stop")
    with pytest.raises(AgentError, match="gave no sign of life") as hung:
        bed.agents["a1"].call("agent.hello")
    assert hung.value.is_dead
    assert bed.agents["b1"].call("agent.hello")["protocol"] == 1


def test_a_panic_is_told_from_where_it_begins(
    ready: GuestPrerequisites, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Hardware, "can_be_kept", False)
    monkeypatch.setattr(hardware, "BOOT_OPTIONS", "console=ttyS0 loglevel=5 panic=-1 rdinit=/no-such-program")
    lab = QemuLab(ASKED, "a test", ready)
    with pytest.raises(QemuEnded, match=r"last on the guest's console: Kernel panic - not syncing"):
        lab.create_testbed("t-guests-panic", guest_shape(levels(role="guest-to-host"), ASKED))


def test_a_snapshot_that_is_broken_is_thrown_away_and_a_guest_boots(
    ready: GuestPrerequisites,
    raise_bed: Raise,
    said: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = tmp_path / "broken.state"
    kept.write_bytes(b"no snapshot")

    def place(version: str, asked: Hardware, software: Software) -> Path:
        return kept

    monkeypatch.setattr(snapshot, "place", place)
    bed = raise_bed(role="guest-to-host")
    assert bed.apply(levels(role="guest-to-host"), ASKED)["path_mtu_proved"] == 1500
    assert "a snapshot did not resume and was thrown away" in said[0]
    assert {each.start_method for each in bed.running} == {"resume"}, "it booted once more, and was kept"
    assert kept.stat().st_size > 1e6


def test_after_a_killed_bench_clean_leaves_nothing(tmp_path: Path, ready: GuestPrerequisites) -> None:
    study = tmp_path / "guests.toml"
    study.write_text(f'{STUDY}mtu = 1500\n[timing]\nduration = "30 s"\n')
    bench = start("run", study, "-o", tmp_path / "guests.vnb")
    try:
        deadline = time.monotonic() + 120
        guests: set[int] = set()
        while len(guests) < 2 and time.monotonic() < deadline and bench.poll() is None:
            time.sleep(0.1)
            guests = of_campaigns()
        assert len(guests) == 2
    finally:
        bench.kill()
        bench.wait()
    code, output = run("lab", "clean")
    assert code == 0 and "removed: run-" in output
    assert not [pid for pid in guests if label_of(pid)]
    assert not [name for name in netlink.list_namespaces() if name.startswith("vnb.run-")]
    assert not list(registry.REGISTRY_DIR.glob("run-*"))


def test_a_guest_has_no_shell_and_lab_exec_says_where_its_console_is(raise_bed: Raise) -> None:
    raise_bed(role="guest-to-host")
    code, output = run("lab", "exec", "t-guests-0", "a1", "--", "ls")
    assert code == 2 and "a1.console" in output
    listing = subprocess.run(
        ["ip", "netns", "exec", "vnb.t-guests-0.sw", "ls", "/sys/class/net"], capture_output=True, text=True
    )
    assert "a1" in listing.stdout


def test_no_qemu_is_said_with_the_fix(tmp_path: Path) -> None:
    study = tmp_path / "guests.toml"
    study.write_text(f"{STUDY}mtu = 1500\n")
    empty: Mapping[str, str] = {"PATH": str(tmp_path)}
    code, output = run("run", study, "-o", tmp_path / "guests.vnb", env=empty)
    assert code == 2 and "qemu-system-x86_64 is not installed" in output
    assert "apt-get install qemu-system-x86" in output
    assert not (tmp_path / "guests.vnb").exists()


def test_an_adapter_that_this_qemu_or_this_kernel_lacks_is_refused_before_anything_runs(
    tmp_path: Path, ready: GuestPrerequisites
) -> None:
    lacking = {
        "igb": "igb" not in ready.qemu.devices,
        "virtio-net-vhost": not Path("/dev/vhost-net").exists(),
    }
    study = tmp_path / "guests.toml"
    for adapter, is_lacking in lacking.items():
        if is_lacking:
            study.write_text(f'{STUDY}adapter = "{adapter}"\n')
            code, output = run("run", study, "-o", tmp_path / "guests.vnb")
            assert code == 2 and "factors.adapter" in output and "fix:" in output
    study.write_text(f"{STUDY}guests = 64\nvcpus = 64\n")
    code, output = run("run", study, "-o", tmp_path / "guests.vnb")
    assert code == 2 and "128 guests need" in output


def test_a_guest_s_kernel_carries_streams_over_vsock(raise_bed: Raise) -> None:
    """Its own loopback: what leads to the host wants vhost_vsock there."""
    agent = raise_bed().agents["a1"]
    asked: dict[str, Any] = {"workload": "tcp_stream", "secret": "00" * 16, "receive": "copy", "send": "copy"}
    sink = {**asked, "trial": "sink", "streams": [{"id": 0, "role": "sink"}], "listen": {"vsock": {}}}
    port = agent.call("trial.prepare", **sink)["port"]
    way = {"vsock": {"cid": VMADDR_CID_LOCAL, "port": port}}
    source = {**asked, "trial": "source", "streams": [{"id": 0, "role": "source"}], "connect": way}
    (stream,) = agent.call("trial.prepare", **source)["streams"]
    assert stream["transport"] == "vsock"
    agent.call("trial.ready", trial="sink")
    for trial in ("sink", "source"):
        agent.call("trial.start", trial=trial, duration_s=TRIAL_S)
    ended: dict[str, int] = {}
    while len(ended) < 2:
        method, params = agent.events.get(timeout=60)
        if method == "trial.end":
            ended[params["trial"]] = params["bytes_sent"] + params["bytes_received"]
    assert ended["sink"] == ended["source"] > 0
