"""Tests of hosts reached by SSH: connecting, installing the agent, setting knobs, and cleaning up."""

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
from tests.lab.ssh_hosts import ROOT, USER, USER_ID, HostNetwork
from tests.machine import FIRST_CPU, USABLE_CPUS, needs_adapters_with_few_queues, needs_two_cpus
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
from vnetbench.lab.hosts import connection, deployment, leftovers, ssh
from vnetbench.lab.hosts.ssh_errors import HostUnreachable
from vnetbench.lab.hosts.testbed import HostsLab
from vnetbench.results.records import TrialRecord
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.labs import HOSTS
from vnetbench.study.model import ExistingEndpointSpec, Level, TestbedSpec

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("real_root", "private_ssh_client")]

MOUNTS_WITHOUT_SPACE = " && ".join(
    f"mount -t tmpfs -o {options} nowhere {place}"
    for place, options in {
        "/run": "noexec,mode=755", "/var/tmp": "size=64k", "/tmp": "ro", f"{ROOT}/full-01/root": "size=64k",
    }.items()
)  # fmt: skip


@pytest.fixture(scope="module")
def network() -> Iterator[HostNetwork]:
    with ssh_hosts.create_hosts("web-01", "web-02", "web-03", "web-04") as created:
        created.add("full-01", MOUNTS_WITHOUT_SPACE)
        yield created


def make_spec(network: HostNetwork, *names: str, **keys: Any) -> TestbedSpec:
    endpoints = tuple(network.hosts[name].spec for name in names)
    return TestbedSpec(lab=HOSTS, existing_endpoints=endpoints, **keys)


def user_spec(*names: str) -> TestbedSpec:
    endpoints = (ExistingEndpointSpec(name, ssh_destination=f"{USER}@{name}") for name in names)
    return TestbedSpec(lab=HOSTS, existing_endpoints=tuple(endpoints))


def open_instrument(spec: TestbedSpec) -> Any:
    return closing(LabInstrument(HostsLab(spec, "a test"), spec))


def make_load(workload: str = "tcp_stream", /, **levels: Level) -> TrialLoad:
    return TrialLoad(complete_levels(levels, workload, HOSTS), 0.2, 0.05, workload)


def measure(spec: TestbedSpec, workload: str = "tcp_stream", /, **levels: Level) -> CompletedTrial:
    with open_instrument(spec) as instrument:
        done: CompletedTrial = instrument.measure(make_load(workload, **levels), lambda: False)
        return done


def mtu(network: HostNetwork, name: str) -> int:
    vm = network.hosts[name].vm
    return netlink.interface_mtu(vm.namespace, vm.interface)


def refusal_of(action: Callable[[], object]) -> TreatmentRefused:
    with pytest.raises(TreatmentRefused) as refused:
        action()
    assert refused.value.fix
    return refused.value


def test_a_trial_between_two_hosts_stores_counts_and_facts_of_both(network: HostNetwork) -> None:
    with open_instrument(make_spec(network, "web-01", "web-02")) as instrument:
        load = make_load(streams=2, direction="both", source_ports="20000-20003")
        measured = instrument.measure(load, lambda: False).measurement
        learned = instrument.take_new_facts()
    received = {side.name: side.bytes_received > 0 for side in measured.endpoints}
    assert received == {"web-01": True, "web-02": True, "host": False}
    metrics = trial_metrics(TrialRecord(0, 0, "", 0.0, 0.2, 0.0, {}, measured.endpoints), 0)
    assert all(metrics[f"goodput_{direction}_bps"] > 0 for direction in ("forward", "reverse"))
    assert measured.effective["source_ports"] == {"web-01": [20000, 20001, 20002, 20003]}
    assert all(side.samples[0].cpu for side in measured.endpoints), "each host reports its own CPUs"
    assert learned.facts_by_subject["web-02"]["kernel"]
    (facts,) = learned.testbed_descriptions.values()
    assert facts["hosts"] == {"web-01": "root@web-01", "web-02": "root@web-02"}
    addresses = {each["name"]: each["address"] for each in facts["endpoints"]}
    assert addresses == {name: network.hosts[name].vm.address for name in facts["hosts"]}


def test_four_hosts_form_two_pairs_that_run_at_once(network: HostNetwork) -> None:
    done = measure(make_spec(network, "web-01", "web-02", "web-03", "web-04"))
    assert done.testbed_shape == "web-01 to web-02, web-03 to web-04"
    received = {side.name: side.bytes_received > 0 for side in done.measurement.endpoints}
    assert received == {"web-01": False, "web-02": True, "web-03": False, "web-04": True, "host": False}


@pytest.mark.parametrize("workload", ["tcp_rr", "tcp_crr", "udp_stream"])
def test_every_workload_runs_on_the_ports_of_the_study(network: HostNetwork, workload: str) -> None:
    spec = make_spec(network, "web-01", "web-02", load_destination_ports="5300-5303")
    levels: dict[str, Level] = {"waiting": "spin"} if workload == "tcp_rr" else {}
    done = measure(spec, workload, **levels)
    assert done.measurement.endpoints[1].bytes_received > 0


@needs_two_cpus
def test_knobs_are_set_on_both_hosts_read_back_and_restored(network: HostNetwork) -> None:
    first, second = map(str, USABLE_CPUS[:2])
    with open_instrument(make_spec(network, "web-01", "web-02")) as instrument:
        found = instrument.measure(
            make_load(mtu=1400, tso="off", cpus=f"{first}/{second}", ip_version="6"), lambda: False
        ).measurement.effective
        assert (found["mtu"], found["tso"], found["path_mtu_proved"]) == (1400, False, 1400)
        assert found["cpus"] == {"web-01": first, "web-02": second}
        assert found["mss"] == 1400 - 72
        assert (mtu(network, "web-01"), mtu(network, "web-02")) == (1400, 1400)
    assert (mtu(network, "web-01"), mtu(network, "web-02")) == (1500, 1500)


def test_without_root_a_trial_runs_but_a_knob_is_refused_with_the_fix(network: HostNetwork) -> None:
    with open_instrument(user_spec("web-01", "web-02")) as instrument:
        # The system decides which other congestion controls a user may choose.
        own = make_load(mtu=1500, cpus="1 each", congestion_control="reno")
        assert instrument.measure(own, lambda: False).measurement.effective["cpus"] == str(FIRST_CPU)
        refused = refusal_of(lambda: instrument.measure(make_load(mtu=1400), lambda: False))
    assert refused.what == f"mtu = 1400 needs root, and ssh logs in as {USER}"
    assert "root@" in str(refused.fix)


def test_an_mtu_above_that_of_the_path_is_refused_with_the_one_that_passes(network: HostNetwork) -> None:
    refused = refusal_of(lambda: measure(make_spec(network, "web-01", "web-02"), mtu=3000))
    assert refused.where == "between web-01 eth0 and web-02 eth0"
    assert "passes at most 1500" in refused.what
    assert mtu(network, "web-01") == 1500


@pytest.mark.parametrize(
    ("levels", "what"),
    [
        ({"mtu": 1000}, "would permanently remove the interface's IPv6 addresses"),
        ({"rx_ring": 256}, "rx_ring = 256 cannot be set"),
        ({"irq_pin": "0"}, "irq_pin = 0 cannot be set"),
        pytest.param({"queues": 64}, "queues = 64 cannot be set", marks=needs_adapters_with_few_queues),
        ({"cpus": "0-4095"}, "cpus = '0-4095' names CPU"),
    ],
)
def test_a_level_that_a_host_lacks_is_refused_with_the_host(
    network: HostNetwork, levels: dict[str, Level], what: str
) -> None:
    refused = refusal_of(lambda: measure(make_spec(network, "web-01", "web-02"), **levels))
    assert what in refused.what
    assert str(refused.where).startswith("web-01")


def test_a_foreign_connection_is_not_counted_and_does_not_disturb_the_trial(network: HostNetwork) -> None:
    target, over = network.hosts["web-02"].vm, threading.Event()

    def connect_repeatedly() -> None:
        while not over.is_set():
            with (
                suppress(OSError),
                socket.create_connection((target.address, 5300), timeout=0.1) as connection,
            ):
                connection.sendall(b"GET / HTTP/1.0\r\n\r\n" * 2)

    client_namespace = network.hosts["web-03"].vm.namespace
    client = threading.Thread(target=lambda: netlink.run_in_namespace(client_namespace, connect_repeatedly))
    client.start()
    try:
        with open_instrument(
            make_spec(network, "web-01", "web-02", load_destination_ports="5300-5301")
        ) as instrument:
            for _ in range(20):
                sides = instrument.measure(make_load(streams=4), lambda: False).measurement.endpoints
                assert sides[0].totals["bytes_sent"] == sides[1].totals["bytes_received"] > 0
                if sides[1].totals["foreign_connections"]:
                    return
        pytest.fail("no foreign connection was accepted and rejected")
    finally:
        over.set()
        client.join()


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ((f"UserKnownHostsFile {ROOT}/client/none",), "the host key is not known yet"),
        (("HostKeyAlias web-02",), "the host key differs from the key in known_hosts"),
        ((f"IdentityFile {ROOT}/client/other_key",), "the host accepts none of your keys"),
        (("Port 2222",), "nothing listens on the host's SSH port"),
        (("HostName 10.77.9.9",), "this machine has no route to the host"),
        (
            ("ProxyJump gone.invalid",),
            "the host's name has no address (ssh: Could not resolve hostname gone.invalid",
        ),
    ],
)
def test_a_failed_connection_is_reported_with_the_fix(
    network: HostNetwork, options: tuple[str, ...], what: str
) -> None:
    name = f"odd-{abs(hash(options)):x}"
    with pytest.raises(HostUnreachable) as refused:
        ssh.connect(name, network.alias(name, *options), "a-test")
    assert what in refused.value.what
    assert refused.value.where == f"{name} (ssh root@{name})"
    assert refused.value.fix


def test_the_configuration_of_the_user_applies_without_disturbing(network: HostNetwork) -> None:
    (ROOT / "web-01/root/.bashrc").write_text("echo hello from the login\n")
    busy = network.alias(
        "busy-01", "ProxyJump web-02", "RequestTTY force", "RemoteCommand top",
        "LocalForward 22 localhost:22", "ControlMaster auto", "ControlPersist 10m",
        f"ControlPath {ROOT}/client/theirs-%C",
    )  # fmt: skip
    try:
        with closing(ssh.connect("busy-01", busy, "a-test")) as machine:
            found = deployment.survey_host(machine)
            assert (found.user, found.is_root, found.address_reached_by_ssh) == (
                "root",
                True,
                network.hosts["web-01"].vm.address,
            )
            # web-02 is the jump host.
            assert (
                machine.run("echo $SSH_CONNECTION").output.split()[-4] == network.hosts["web-02"].vm.address
            )
    finally:
        (ROOT / "web-01/root/.bashrc").unlink()
    assert list((ROOT / "client").glob("theirs-*")) == []


def test_a_long_path_of_the_temporary_folder_does_not_prevent_a_connection(
    network: HostNetwork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = tmp_path / ("deep" * 30)
    far.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(far))
    with closing(ssh.connect("web-01", "root@web-01", "a-test")) as machine:
        assert machine.run("echo here").output == "here\n"


def test_a_host_without_space_is_reported_with_the_reason_for_each_folder(network: HostNetwork) -> None:
    with pytest.raises(BenchError, match="no folder on the host can hold the agent") as refused:
        connection.connect_host(network.hosts["full-01"].spec, "a-test", "a test")
    for reason in (
        "/run: programs may not run there (noexec)", "/var/tmp: only 64 KiB of ",
        "/tmp: Read-only file system", f"{ROOT}/full-01/root: only 64 KiB of ",
    ):  # fmt: skip
        assert reason in refused.value.what


def test_a_damaged_agent_or_one_for_another_architecture_is_not_run(
    network: HostNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = network.hosts["web-01"].spec
    with monkeypatch.context() as patched:
        patched.setattr(deployment, "agent_sha256", lambda: "0" * 64)
        with pytest.raises(BenchError, match="the received file differs from the sent one"):
            connection.connect_host(host, "a-test", "a test")
    monkeypatch.setattr(deployment, "agent_architectures", lambda: ("aarch64", "arm64"))
    with pytest.raises(
        BenchError, match="the host is a x86_64 machine, but the agent is built for aarch64"
    ) as refused:
        connection.connect_host(host, "a-test", "a test")
    assert "VNETBENCH_AGENT" in str(refused.value.fix)


@pytest.mark.parametrize("is_link", [False, True])
def test_a_folder_of_another_user_is_neither_run_nor_removed(tmp_path: Path, *, is_link: bool) -> None:
    name = deployment.new_folder_name("root")
    folder, marker = Path("/var/tmp") / name, tmp_path / "it-was-run"  # Other test processes share /tmp.
    at = tmp_path / "elsewhere" if is_link else folder
    at.mkdir()
    (at / "journal").touch()
    (at / deployment.AGENT_FILE_NAME).write_text(f"#!/bin/sh\ntouch {marker}\n")
    (at / deployment.AGENT_FILE_NAME).chmod(0o755)
    if is_link:
        folder.symlink_to(at)
    else:
        os.chown(folder, USER_ID, USER_ID)
    try:
        with closing(ssh.connect("web-01", "root@web-01", "a-test")) as machine:
            assert not deployment.remove_agent_if_installed(machine, name)
        assert not marker.exists()
        assert (folder / "journal").exists()
    finally:
        folder.unlink() if is_link else shutil.rmtree(folder)


def test_the_doctor_lists_the_knobs_of_a_host_and_leaves_nothing_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert check_host(Console(width=200), f"{USER}@web-01") == 0
    results = {
        line[:22].strip(): line[23:].split()[0]
        for line in capsys.readouterr().out.splitlines()
        if line[:1] > " "
    }
    assert results == {
        "connection": GOOD, "machine": GOOD, "agent": GOOD, "settings": LIMITED, "interface": GOOD,
        "adapter settings": GOOD, "unsupported": LIMITED, "clean-up": GOOD,
    }  # fmt: skip
    assert check_host(Console(width=200), "root@full-01") == 1
    assert "noexec" in capsys.readouterr().out


def test_an_interrupted_doctor_leaves_nothing_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(doctor_host, "usable_addresses", interrupted)
    with pytest.raises(KeyboardInterrupt):
        check_host(Console(width=200), "root@web-01")


@pytest.mark.parametrize("folder", ["", "..", "vnetbench-x/..", "home"])
def test_a_leftover_record_with_another_folder_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    leftover = leftovers.record_agent_folder(
        "vnetbench-root-0123456789ab", "web-01", "root@web-01", "a-test", "a test"
    )
    assert leftovers.list_agent_folder_records() == [leftover]
    (record,) = (tmp_path / "vnetbench/hosts").iterdir()
    record.write_text(record.read_text().replace(leftover.folder, folder))
    assert leftovers.list_agent_folder_records() == []


def test_a_host_in_use_by_another_campaign_is_refused(
    network: HostNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    connected = connection.connect_host(network.hosts["web-01"].spec, "a-test", "the first")
    try:
        monkeypatch.setattr(leftovers.AgentFolderRecord, "is_own", False)
        with pytest.raises(BenchError, match=r"another campaign uses this host \(process \d+: the first\)"):
            connection.connect_host(network.hosts["web-01"].spec, "a-test", "the second")
    finally:
        connection.disconnect_host(connected)


def test_two_campaigns_that_start_at_once_never_share_a_host(
    network: HostNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers.AgentFolderRecord, "is_own", False)
    barrier = threading.Barrier(2, timeout=ssh_hosts.TIMEOUT_S)
    survey = deployment.survey_host

    def survey_together(machine: ssh.Machine) -> deployment.HostSurvey:
        found = survey(machine)
        barrier.wait()
        return found

    monkeypatch.setattr(deployment, "survey_host", survey_together)
    host = network.hosts["web-01"].spec
    with ThreadPoolExecutor(2) as pool:
        started = [pool.submit(connection.connect_host, host, "a-test", "a test") for _ in range(2)]
    connected = [each.result() for each in started if each.exception() is None]
    for each in connected:
        connection.disconnect_host(each)
    assert len(connected) <= 1
    assert all("another campaign" in str(each.exception()) for each in started if each.exception())


def test_a_failed_connection_to_one_host_leaves_nothing_on_the_other(network: HostNetwork) -> None:
    lab = HostsLab(make_spec(network, "web-01", "full-01"), "a test")
    with pytest.raises(BenchError, match="can hold the agent"):
        lab.create_testbed("a-test", lab.testbed_shape({}))


def test_the_settings_of_a_killed_agent_are_restored(network: HostNetwork) -> None:
    lab = HostsLab(make_spec(network, "web-01", "web-02"), "a test")
    with closing(lab.create_testbed("a-test", lab.testbed_shape({}))) as testbed:
        testbed.set_knobs_and_prove_paths(make_load(mtu=1400).factors, make_spec(network))
        ssh_hosts.kill(*ssh_hosts.agents())
        with pytest.raises(AgentError, match="killed"):
            testbed.agents["web-01"].call("agent.hello")
    assert (mtu(network, "web-01"), mtu(network, "web-02")) == (1500, 1500)
