"""Tests of campaigns on hosts whose connections are cut or whose processes are killed."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.faults import bench_process
from tests.lab import ssh_hosts
from tests.lab.ssh_hosts import Host, HostNetwork, wait_until
from vnetbench.campaign.instrument import LabInstrument
from vnetbench.campaign.trial import TrialLoad
from vnetbench.lab import netlink
from vnetbench.lab.errors import TrialFailed
from vnetbench.lab.hosts import leftovers, ssh
from vnetbench.lab.hosts.testbed import HostsLab
from vnetbench.lab.links.shaping import limit_transmit_rate
from vnetbench.lab.netns.topology import NetDevice
from vnetbench.results.file import ResultsFile
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.labs import HOSTS
from vnetbench.study.model import TestbedSpec

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("real_root")]

LEAST_LOAD_BYTES = 20_000_000
"""More than the control connections carry, the agent's program included."""
LONG_S = 20.0
"""Duration of a trial that is interrupted long before its end."""
STUDY = """\
title = "Hosts"
[testbed]
lab = "hosts"
{hosts}
[factors]
mtu = 1400
[timing]
duration = "{duration}"
[precision]
max_trials = 2
min_trials = 2
"""
HOST = '[[testbed.host]]\nname = "{0}"\nssh = "root@{0}"\n'
LOCAL_HOST = '[[testbed.host]]\nname = "here"\nlocal = true\n'


@pytest.fixture(scope="module")
def network() -> Iterator[HostNetwork]:
    with ssh_hosts.create_hosts("web-01", "web-02") as created:
        yield created


@pytest.fixture
def instrument(network: HostNetwork, monkeypatch: pytest.MonkeyPatch) -> Iterator[LabInstrument]:
    for name, value in network.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setitem(ssh._MASTER_OPTIONS, "ServerAliveInterval", "1")
    monkeypatch.setitem(ssh._MASTER_OPTIONS, "ServerAliveCountMax", "2")
    spec = TestbedSpec(lab=HOSTS, existing_endpoints=tuple(host.spec for host in network.hosts.values()))
    with closing(LabInstrument(HostsLab(spec, "a test"), spec)) as created:
        yield created
    assert_hosts_are_restored(network)
    assert leftovers.list_agent_folder_records() == []


def make_load(duration_s: float) -> TrialLoad:
    return TrialLoad(complete_levels({"mtu": 1400}, testbed_backend=HOSTS), duration_s, 0.05)


def mtus(network: HostNetwork) -> list[int]:
    return [netlink.interface_mtu(host.vm.namespace, host.vm.interface) for host in network.hosts.values()]


def assert_hosts_are_restored(network: HostNetwork) -> None:
    assert ssh_hosts.agents() == {}
    assert ssh_hosts.folders() == []
    assert mtus(network) == [1500, 1500]


@contextmanager
def during_load(host: Host, action: Callable[[], None]) -> Iterator[None]:
    """Run a function once the host receives the load of a trial, which a busy machine may start late."""
    before = received_bytes(host)

    def act() -> None:
        wait_until(lambda: received_bytes(host) > before + LEAST_LOAD_BYTES)
        action()

    with ThreadPoolExecutor(1) as pool:
        acting = pool.submit(act)
        yield
        acting.result()


def received_bytes(host: Host) -> int:
    with netlink.open_in_namespace(host.vm.namespace) as ipr:
        (link,) = ipr.get_links(netlink.interface_index(ipr, host.vm.interface))
        return int(link.get_attr("IFLA_STATS64")["rx_bytes"])


def test_a_cut_connection_costs_only_its_trial(network: HostNetwork, instrument: LabInstrument) -> None:
    instrument.measure(make_load(0.2), lambda: False)
    host = network.hosts["web-02"]
    with (
        during_load(host, lambda: ssh_hosts.kill(*host.connections())),
        pytest.raises(TrialFailed, match=r"web-02: the agent ended \(the SSH connection was lost\)"),
    ):
        instrument.measure(make_load(LONG_S), lambda: False)
    instrument.measure(make_load(0.2), lambda: False)


def test_knobs_are_restored_after_a_link_was_down(network: HostNetwork, instrument: LabInstrument) -> None:
    instrument.measure(make_load(0.2), lambda: False)
    host = network.hosts["web-02"]
    with (
        during_load(host, lambda: network.set_link(host, "down")),
        pytest.raises(TrialFailed, match="web-02"),
    ):
        instrument.measure(make_load(LONG_S), lambda: False)
    # The agent has not noticed: it still runs with its settings.
    (leftover,) = leftovers.list_agent_folder_records()
    assert (leftover.host, leftover.is_own) == ("web-02", True)
    assert mtus(network) == [1500, 1400]
    # The bench waits for the host, so that the link may come back at any time.
    timer = threading.Timer(1.0, network.set_link, (host, "up"))
    timer.start()
    try:
        instrument.measure(make_load(0.2), lambda: False)
    finally:
        timer.join()


def test_a_killed_remote_agent_costs_only_its_trial_and_leaves_nothing(
    network: HostNetwork, instrument: LabInstrument
) -> None:
    instrument.measure(make_load(0.2), lambda: False)
    (web_02,) = [left.folder for left in leftovers.list_agent_folder_records() if left.host == "web-02"]
    (agent,) = [pid for pid, folder in ssh_hosts.agents().items() if Path(folder).name == web_02]
    with (
        during_load(network.hosts["web-02"], lambda: ssh_hosts.kill(agent)),
        pytest.raises(TrialFailed, match=r"web-02.*killed"),
    ):
        instrument.measure(make_load(LONG_S), lambda: False)


def write_campaign_study(
    network: HostNetwork, folder: Path, duration: str, hosts: str = ""
) -> tuple[Path, Path]:
    study = folder / "hosts.toml"
    named = hosts or "".join(HOST.format(name) for name in network.hosts)
    study.write_text(STUDY.format(hosts=named, duration=duration))
    return study, folder / "hosts.vnb"


def test_a_killed_bench_leaves_nothing_on_reachable_hosts(network: HostNetwork, tmp_path: Path) -> None:
    study, results = write_campaign_study(network, tmp_path, "30 s")
    bench = bench_process.start("run", study, "-o", results, env=network.environment)
    wait_until(lambda: mtus(network) == [1400, 1400])
    bench_process.kill(bench)
    wait_until(lambda: not ssh_hosts.agents() and not ssh_hosts.folders())
    assert_hosts_are_restored(network)
    _, output = bench_process.run("lab", "ls", env=network.environment)
    assert "web-01 (root@web-01)" in output
    assert any(owner.startswith(f"{bench.pid}:") for owner in ssh_hosts.connections())
    code, output = bench_process.run("lab", "clean", env=network.environment)
    assert (code, output.count("Removed vnetbench-root-")) == (0, 2)
    assert not any(owner.startswith(f"{bench.pid}:") for owner in ssh_hosts.connections())


def test_lab_clean_restores_hosts_after_bench_and_agents_were_killed(
    network: HostNetwork, tmp_path: Path
) -> None:
    study, results = write_campaign_study(network, tmp_path, "30 s")
    bench = bench_process.start("run", study, "-o", results, env=network.environment)
    wait_until(lambda: mtus(network) == [1400, 1400])
    # A bench that runs restores the settings as soon as its agents have ended.
    bench.send_signal(signal.SIGSTOP)
    ssh_hosts.kill(*ssh_hosts.agents())
    bench_process.kill(bench)
    time.sleep(0.5)  # Nothing restores the settings in this time.
    assert mtus(network) == [1400, 1400]
    assert len(ssh_hosts.folders()) == 2
    with network.without_known_hosts():
        code, output = bench_process.run("lab", "clean", env=network.environment)
    assert code == 1
    assert output.count("Cannot remove vnetbench-root-") == output.count("the host key is not known yet") == 2
    assert mtus(network) == [1400, 1400]
    code, output = bench_process.run("lab", "clean", env=network.environment)
    assert (code, output.count("Removed vnetbench-root-")) == (0, 2)
    assert_hosts_are_restored(network)


def test_a_campaign_over_a_slow_link_with_a_long_queue_succeeds(network: HostNetwork, tmp_path: Path) -> None:
    """The control connections share that link with the load."""
    study, results = write_campaign_study(network, tmp_path, "400 ms", LOCAL_HOST + HOST.format("web-01"))
    host, switch = network.hosts["web-01"].vm, network.topology.switch_namespace
    for device in (host.device, NetDevice("its port", switch, host.name)):
        limit_transmit_rate(device, 5e7, "tbf", 0.08)
    try:
        code, output = bench_process.run(
            "run", study, "-o", results, env=network.environment, inside=network.bench.namespace
        )
        assert code == 0, output
        file = ResultsFile.open_to_read(results)
        with closing(file):
            trials, facts = list(file.trials()), file.facts()
        assert len(trials) == 2
        assert all(trial.effective["mtu"] == 1400 for trial in trials)
        assert facts["web-01"]["kernel"]
    finally:
        for device in (host.device, NetDevice("its port", switch, host.name)):
            limit_transmit_rate(device, None, "tbf", "auto")
    assert_hosts_are_restored(network)
    assert netlink.interface_mtu(network.bench.namespace, network.bench.interface) == 1500
