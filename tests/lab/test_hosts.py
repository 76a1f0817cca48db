"""Hosts reached by SSH: whom the bench connects to, what it puts there, sets there, and takes away again."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.lab import ssh_hosts
from tests.lab.ssh_hosts import ROOT, USER, USER_ID, Ground
from vnetbench.agents.client import AgentError
from vnetbench.campaign.instrument import CompletedTrial, LabInstrument
from vnetbench.campaign.trial import TrialLoad
from vnetbench.commands import doctor_host
from vnetbench.commands.doctor_check import GOOD, LIMITED
from vnetbench.commands.doctor_host import check_host
from vnetbench.errors import BenchError
from vnetbench.estimate.trial_metrics import trial_metrics
from vnetbench.lab import netlink
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.lab.hosts import deployment, leftovers, ssh, testbed
from vnetbench.lab.hosts.ssh_errors import HostUnreachable
from vnetbench.lab.hosts.testbed import HostsLab
from vnetbench.results.records import TrialRecord
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.labs import HOSTS
from vnetbench.study.model import HostSpec, Level, TestbedSpec

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("real_root", "reached")]

NOWHERE = " && ".join(
    f"mount -t tmpfs -o {options} nowhere {place}"
    for place, options in {
        "/run": "noexec,mode=755", "/var/tmp": "size=64k", "/tmp": "ro", f"{ROOT}/full-01/root": "size=64k",
    }.items()
)  # fmt: skip


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    with ssh_hosts.raised("web-01", "web-02", "web-03", "web-04") as raised:
        raised.add("full-01", NOWHERE)
        yield raised


def asked(ground: Ground, *names: str, **keys: Any) -> TestbedSpec:
    return TestbedSpec(lab=HOSTS, hosts=tuple(ground.hosts[name].asked for name in names), **keys)


def as_user(*names: str) -> TestbedSpec:
    return TestbedSpec(lab=HOSTS, hosts=tuple(HostSpec(name, ssh=f"{USER}@{name}") for name in names))


def instrument(of: TestbedSpec) -> Any:
    return closing(LabInstrument(HostsLab(of, "a test"), of))


def load(workload: str = "tcp_stream", /, **levels: Level) -> TrialLoad:
    return TrialLoad(complete_levels(levels, workload, HOSTS), 0.2, 0.05, workload)


def measure(of: TestbedSpec, workload: str = "tcp_stream", /, **levels: Level) -> CompletedTrial:
    with instrument(of) as made:
        done: CompletedTrial = made.measure(load(workload, **levels), lambda: False)
        return done


def mtu(ground: Ground, name: str) -> int:
    vm = ground.hosts[name].vm
    return netlink.interface_mtu(vm.namespace, vm.interface)


def refusal(measured: Callable[[], object]) -> TreatmentRefused:
    with pytest.raises(TreatmentRefused) as refused:
        measured()
    assert refused.value.fix
    return refused.value


def test_a_trial_between_two_hosts_counts_on_both_and_keeps_what_each_is(ground: Ground) -> None:
    with instrument(asked(ground, "web-01", "web-02")) as made:
        measured = made.measure(load(streams=2, direction="both"), lambda: False).measured
        learned = made.take_new_facts()
    assert [side.endpoint for side in measured.sides] == ["web-01", "web-02", "host"]
    assert all(side.bytes_received > 0 for side in measured.sides[:2])
    figures = trial_metrics(TrialRecord(0, 0, "", 0.0, 0.2, 0.0, {}, measured.sides), 0)
    assert all(figures[f"goodput_{way}_bps"] > 0 for way in ("forward", "reverse"))
    # Each host's kernel is its own, so each has its own account of CPUs.
    assert all(side.samples[0].cpu for side in measured.sides)
    assert learned.facts["web-02"]["kernel"]
    (facts,) = learned.testbeds.values()
    assert facts["hosts"] == {"web-01": "root@web-01", "web-02": "root@web-02"}
    assert [e["address"] for e in facts["endpoints"]] == [
        ground.hosts[n].vm.address for n in ("web-01", "web-02")
    ]


def test_four_hosts_are_two_pairs_that_work_at_once(ground: Ground) -> None:
    done = measure(asked(ground, "web-01", "web-02", "web-03", "web-04"))
    assert done.testbed_shape == "web-01 to web-02, web-03 to web-04"
    received = {side.name: side.bytes_received > 0 for side in done.measurement.endpoints}
    assert received == {"web-01": False, "web-02": True, "web-03": False, "web-04": True, "host": False}


@pytest.mark.parametrize("workload", ["tcp_rr", "tcp_crr", "udp_stream"])
def test_every_workload_runs_on_the_ports_that_the_study_names(ground: Ground, workload: str) -> None:
    of = asked(ground, "web-01", "web-02", ports="5300-5303")
    levels: dict[str, Level] = {"waiting": "spin"} if workload == "tcp_rr" else {}
    done = measure(of, workload, **levels)
    assert done.measurement.endpoints[1].bytes_received > 0


def test_knobs_are_set_on_both_hosts_read_back_and_put_back_at_the_end(ground: Ground) -> None:
    with instrument(asked(ground, "web-01", "web-02")) as made:
        found = made.measure(
            load(mtu=1400, tso="off", cpus="0/1", ip_version="6"), lambda: False
        ).measured.effective
        assert (found["mtu"], found["tso"], found["path_mtu_proved"]) == (1400, False, 1400)
        assert found["cpus"] == {"web-01": "0", "web-02": "1"}
        assert found["mss"] == 1400 - 72
        assert (mtu(ground, "web-01"), mtu(ground, "web-02")) == (1400, 1400)
    assert (mtu(ground, "web-01"), mtu(ground, "web-02")) == (1500, 1500)


def test_without_root_a_trial_runs_and_a_knob_is_refused_with_the_fix(ground: Ground) -> None:
    with instrument(as_user("web-01", "web-02")) as made:
        # Which others a user may choose is the system's to say.
        own = load(mtu=1500, cpus="1 each", congestion_control="reno")
        assert made.measure(own, lambda: False).measured.effective["cpus"] == "0"
        refused = refusal(lambda: made.measure(load(mtu=1400), lambda: False))
    assert refused.what == f"mtu = 1400 needs root, and ssh logs in as {USER}"
    assert "root@" in str(refused.fix)


def test_an_mtu_that_the_way_between_does_not_carry_is_refused_with_what_passes(ground: Ground) -> None:
    refused = refusal(lambda: measure(asked(ground, "web-01", "web-02"), mtu=3000))
    assert refused.where == "between web-01 eth0 and web-02 eth0"
    assert "passes 1500 at most" in refused.what
    assert mtu(ground, "web-01") == 1500


@pytest.mark.parametrize(
    ("levels", "what"),
    [
        ({"mtu": 1000}, "would take the interface its IPv6 addresses, for good"),
        ({"rx_ring": 256}, "rx_ring = 256 cannot be set"),
        ({"irq_pin": "0"}, "irq_pin = 0 cannot be set"),
        ({"queues": 64}, "queues = 64 cannot be set"),
        ({"cpus": "0-99"}, "cpus = '0-99' names CPU"),
    ],
)
def test_what_a_host_cannot_have_is_refused_with_its_name(
    ground: Ground, levels: dict[str, Level], what: str
) -> None:
    refused = refusal(lambda: measure(asked(ground, "web-01", "web-02"), **levels))
    assert what in refused.what
    assert str(refused.where).startswith("web-01")


def test_a_strangers_connection_is_never_counted_and_the_trial_goes_on_beside_it(ground: Ground) -> None:
    target, over = ground.hosts["web-02"].vm, threading.Event()

    def knock() -> None:
        while not over.is_set():
            with suppress(OSError), socket.create_connection((target.address, 5300), timeout=0.1) as stranger:
                stranger.sendall(b"GET / HTTP/1.0\r\n\r\n" * 2)

    from_elsewhere = ground.hosts["web-03"].vm.namespace
    stranger = threading.Thread(target=lambda: netlink.run_in_namespace(from_elsewhere, knock))
    stranger.start()
    try:
        with instrument(asked(ground, "web-01", "web-02", ports="5300-5301")) as made:
            for _ in range(20):
                sides = made.measure(load(streams=4), lambda: False).measured.sides
                assert sides[0].totals["bytes_sent"] == sides[1].totals["bytes_received"] > 0
                if sides[1].totals["foreign_connections"]:
                    return
        pytest.fail("the stranger was never let in to be turned away")
    finally:
        over.set()
        stranger.join()


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ((f"UserKnownHostsFile {ROOT}/client/none",), "its host key is not known yet"),
        (("HostKeyAlias web-02",), "its host key is another than known_hosts has"),
        ((f"IdentityFile {ROOT}/client/other_key",), "it refuses the login: no key of yours opens it"),
        (("Port 2222",), "nothing listens on its SSH port"),
        (("HostName 10.77.9.9",), "there is no way to it"),
        (
            ("ProxyJump gone.invalid",),
            "its name has no address (ssh: Could not resolve hostname gone.invalid",
        ),
    ],
)
def test_a_host_that_cannot_be_entered_is_a_sentence_with_the_fix(
    ground: Ground, options: tuple[str, ...], what: str
) -> None:
    name = f"odd-{abs(hash(options)):x}"
    with pytest.raises(HostUnreachable) as refused:
        ssh.connect(name, ground.alias(name, *options), "a-test")
    assert what in refused.value.what
    assert refused.value.where == f"{name} (ssh root@{name})"
    assert refused.value.fix


def test_the_users_own_configuration_applies_and_none_of_it_disturbs(ground: Ground) -> None:
    (ROOT / "web-01/root/.bashrc").write_text("echo hello from the login\n")
    busy = ground.alias(
        "busy-01", "ProxyJump web-02", "RequestTTY force", "RemoteCommand top",
        "LocalForward 22 localhost:22", "ControlMaster auto", "ControlPersist 10m",
        f"ControlPath {ROOT}/client/theirs-%C",
    )  # fmt: skip
    try:
        with closing(ssh.connect("busy-01", busy, "a-test")) as machine:
            found = deployment.survey_host(machine)
            assert (found.user, found.is_root, found.ssh_address) == (
                "root",
                True,
                ground.hosts["web-01"].vm.address,
            )
            # web-02 is the jump host.
            assert machine.run("echo $SSH_CONNECTION").output.split()[-4] == ground.hosts["web-02"].vm.address
    finally:
        (ROOT / "web-01/root/.bashrc").unlink()
    assert list((ROOT / "client").glob("theirs-*")) == []


def test_a_temporary_folder_of_a_long_name_keeps_no_host_from_being_entered(
    ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = tmp_path / ("deep" * 30)
    far.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(far))
    with closing(ssh.connect("web-01", "root@web-01", "a-test")) as machine:
        assert machine.run("echo here").output == "here\n"


def test_a_host_without_room_says_of_every_place_what_it_lacks(ground: Ground) -> None:
    with pytest.raises(BenchError, match="there is no place for the agent") as refused:
        testbed.connect_host(ground.hosts["full-01"].asked, "a-test", "a test")
    for reason in (
        "/run: programs may not be run there (noexec)", "/var/tmp: 64 KiB are free, and ",
        "/tmp: Read-only file system", f"{ROOT}/full-01/root: 64 KiB are free, and ",
    ):  # fmt: skip
        assert reason in refused.value.what


def test_an_agent_that_does_not_arrive_whole_or_does_not_fit_is_not_run(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = ground.hosts["web-01"].asked
    with monkeypatch.context() as patched:
        patched.setattr(deployment, "agent_hash", lambda: "0" * 64)
        with pytest.raises(BenchError, match="what arrived is not what was sent"):
            testbed.connect_host(host, "a-test", "a test")
    monkeypatch.setattr(deployment, "agent_machine", lambda: ("aarch64", "arm64"))
    with pytest.raises(BenchError, match="it is a x86_64, and the agent here is for aarch64") as refused:
        testbed.connect_host(host, "a-test", "a test")
    assert "VNETBENCH_AGENT" in str(refused.value.fix)


@pytest.mark.parametrize("is_link", [False, True])
def test_what_another_user_of_the_host_puts_where_an_agent_may_be_is_neither_run_nor_removed(
    tmp_path: Path, *, is_link: bool
) -> None:
    name = deployment.new_folder_name("root")
    folder, told = Path("/tmp") / name, tmp_path / "it-was-run"
    at = tmp_path / "elsewhere" if is_link else folder
    at.mkdir()
    (at / "journal").touch()
    (at / deployment.AGENT_FILE).write_text(f"#!/bin/sh\ntouch {told}\n")
    (at / deployment.AGENT_FILE).chmod(0o755)
    if is_link:
        folder.symlink_to(at)
    else:
        os.chown(folder, USER_ID, USER_ID)
    try:
        with closing(ssh.connect("web-01", "root@web-01", "a-test")) as machine:
            assert not deployment.remove_agent(machine, name)
        assert not told.exists()
        assert (folder / "journal").exists()
    finally:
        folder.unlink() if is_link else shutil.rmtree(folder)


def test_the_doctor_says_what_can_be_set_on_a_host_and_proves_that_nothing_stays(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert check_host(Console(width=200), f"{USER}@web-01") == 0
    said = {
        line[:22].strip(): line[23:].split()[0]
        for line in capsys.readouterr().out.splitlines()
        if line[:1] > " "
    }
    assert said == {
        "connection": GOOD, "machine": GOOD, "agent on it": GOOD, "knobs": LIMITED, "interface": GOOD,
        "knobs it has": GOOD, "knobs it lacks": LIMITED, "clean-up": GOOD,
    }  # fmt: skip
    assert check_host(Console(width=200), "root@full-01") == 1
    assert "noexec" in capsys.readouterr().out


def test_a_doctor_that_is_broken_off_leaves_nothing_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(doctor_host, "own_addresses", interrupted)
    with pytest.raises(KeyboardInterrupt):
        check_host(Console(width=200), "root@web-01")


@pytest.mark.parametrize("folder", ["", "..", "vnetbench-x/..", "home"])
def test_a_note_of_what_is_on_a_host_that_names_another_folder_is_never_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    left = leftovers.record_leftover(
        "vnetbench-root-0123456789ab", "web-01", "root@web-01", "a-test", "a test"
    )
    assert leftovers.list_leftovers() == [left]
    (note,) = (tmp_path / "vnetbench/hosts").iterdir()
    note.write_text(note.read_text().replace(left.folder, folder))
    assert leftovers.list_leftovers() == []


def test_a_host_that_another_campaign_uses_is_left_to_it(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered = testbed.connect_host(ground.hosts["web-01"].asked, "a-test", "the first")
    try:
        monkeypatch.setattr(leftovers.HostLeftover, "is_ours", False)
        with pytest.raises(BenchError, match=r"another campaign is at work on it \(process \d+: the first\)"):
            testbed.connect_host(ground.hosts["web-01"].asked, "a-test", "the second")
    finally:
        testbed.disconnect_host(entered)


def test_of_two_campaigns_that_start_at_once_none_works_beside_the_other(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers.HostLeftover, "is_ours", False)
    both_look = threading.Barrier(2, timeout=ssh_hosts.PATIENCE_S)
    survey = deployment.survey_host

    def surveyed(machine: ssh.Machine) -> deployment.HostSurvey:
        found = survey(machine)
        both_look.wait()
        return found

    monkeypatch.setattr(deployment, "survey", surveyed)
    host = ground.hosts["web-01"].asked
    with ThreadPoolExecutor(2) as pool:
        started = [pool.submit(testbed.connect_host, host, "a-test", "a test") for _ in range(2)]
    entered = [each.result() for each in started if each.exception() is None]
    for each in entered:
        testbed.disconnect_host(each)
    assert len(entered) <= 1
    assert all("another campaign" in str(each.exception()) for each in started if each.exception())


def test_one_host_that_cannot_be_entered_leaves_nothing_on_the_other(ground: Ground) -> None:
    lab = HostsLab(asked(ground, "web-01", "full-01"), "a test")
    with pytest.raises(BenchError, match="no place for the agent"):
        lab.create_testbed("a-test", lab.shape({}))


def test_an_agent_that_dies_is_told_and_what_it_had_set_is_put_back(ground: Ground) -> None:
    lab = HostsLab(asked(ground, "web-01", "web-02"), "a test")
    with closing(lab.create_testbed("a-test", lab.shape({}))) as bed:
        bed.apply(load(mtu=1400).factors, asked(ground))
        ssh_hosts.kill(*ssh_hosts.agents())
        with pytest.raises(AgentError, match="killed"):
            bed.agents["web-01"].call("agent.hello")
    assert (mtu(ground, "web-01"), mtu(ground, "web-02")) == (1500, 1500)
