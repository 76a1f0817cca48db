"""What becomes of hosts, and of a campaign on them, when connections are cut and programs are killed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.faults import bench_process
from tests.lab import ssh_hosts
from tests.lab.ssh_hosts import Ground, await_
from vnetbench.campaign.instrument import LabInstrument
from vnetbench.campaign.trial import TrialLoad
from vnetbench.lab import netlink
from vnetbench.lab.errors import TrialFailed
from vnetbench.lab.hosts import leftovers, ssh
from vnetbench.lab.hosts.testbed import HostsLab
from vnetbench.lab.links.shaping import shape_link
from vnetbench.lab.netns.topology import NetDevice
from vnetbench.results.file import ResultsFile
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.labs import HOSTS
from vnetbench.study.model import TestbedSpec

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("real_root")]

LONG_S = 20.0
"""Of a trial: cut long before it is over."""
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
most_trials = 2
fewest_trials = 2
"""
HOST = '[[testbed.host]]\nname = "{0}"\nssh = "root@{0}"\n'
HERE = '[[testbed.host]]\nname = "here"\nlocal = true\n'


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    with ssh_hosts.raised("web-01", "web-02") as raised:
        yield raised


@pytest.fixture
def instrument(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> Iterator[LabInstrument]:
    for name, value in ground.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setitem(ssh._MASTER_OPTIONS, "ServerAliveInterval", "1")
    monkeypatch.setitem(ssh._MASTER_OPTIONS, "ServerAliveCountMax", "2")
    asked = TestbedSpec(lab=HOSTS, hosts=tuple(host.asked for host in ground.hosts.values()))
    with closing(LabInstrument(HostsLab(asked, "a test"), asked)) as made:
        yield made
    assert_as_found(ground)
    assert leftovers.list_leftovers() == []


def load(duration_s: float) -> TrialLoad:
    return TrialLoad(complete_levels({"mtu": 1400}, backend=HOSTS), duration_s, 0.05)


def mtus(ground: Ground) -> list[int]:
    return [netlink.interface_mtu(host.vm.namespace, host.vm.interface) for host in ground.hosts.values()]


def assert_as_found(ground: Ground) -> None:
    assert ssh_hosts.agents() == {}
    assert ssh_hosts.folders() == []
    assert mtus(ground) == [1500, 1500]


@contextmanager
def meanwhile(do: Callable[[], None]) -> Iterator[None]:
    """Have it done while a trial is under load."""
    timer = threading.Timer(1.0, do)
    timer.start()
    yield
    timer.join()


def test_a_connection_that_is_cut_costs_the_trial_and_the_host_is_found_again(
    ground: Ground, instrument: LabInstrument
) -> None:
    instrument.measure(load(0.2), lambda: False)
    host = ground.hosts["web-02"]
    with (
        meanwhile(lambda: ssh_hosts.kill(*host.connections())),
        pytest.raises(TrialFailed, match=r"web-02: the agent ended \(the SSH connection was lost\)"),
    ):
        instrument.measure(load(LONG_S), lambda: False)
    instrument.measure(load(0.2), lambda: False)


def test_a_link_that_is_down_is_noticed_and_when_it_is_up_again_knobs_are_as_they_were_first_found(
    ground: Ground, instrument: LabInstrument
) -> None:
    instrument.measure(load(0.2), lambda: False)
    host = ground.hosts["web-02"]
    with (
        meanwhile(lambda: ground.set_link(host, "down")),
        pytest.raises(TrialFailed, match="web-02"),
    ):
        instrument.measure(load(LONG_S), lambda: False)
    # Its agent has not heard of it: it still runs, and what it set still stands.
    (left,) = leftovers.list_leftovers()
    assert (left.host, left.is_own) == ("web-02", True)
    assert mtus(ground) == [1500, 1400]
    with meanwhile(lambda: ground.set_link(host, "up")):
        instrument.measure(load(0.2), lambda: False)


def test_a_remote_agent_that_is_killed_costs_the_trial_and_leaves_nothing(
    ground: Ground, instrument: LabInstrument
) -> None:
    instrument.measure(load(0.2), lambda: False)
    (web_02,) = [left.folder for left in leftovers.list_leftovers() if left.host == "web-02"]
    (agent,) = [pid for pid, folder in ssh_hosts.agents().items() if Path(folder).name == web_02]
    with meanwhile(lambda: ssh_hosts.kill(agent)), pytest.raises(TrialFailed, match=r"web-02.*killed"):
        instrument.measure(load(LONG_S), lambda: False)


def campaign(ground: Ground, folder: Path, duration: str, hosts: str = "") -> tuple[Path, Path]:
    study = folder / "hosts.toml"
    named = hosts or "".join(HOST.format(name) for name in ground.hosts)
    study.write_text(STUDY.format(hosts=named, duration=duration))
    return study, folder / "hosts.vnb"


def test_a_killed_bench_leaves_nothing_on_hosts_that_it_can_still_reach(
    ground: Ground, tmp_path: Path
) -> None:
    study, results = campaign(ground, tmp_path, "30 s")
    bench = bench_process.start("run", study, "-o", results, env=ground.environment)
    await_(lambda: mtus(ground) == [1400, 1400])
    bench_process.kill(bench)
    await_(lambda: not ssh_hosts.agents() and not ssh_hosts.folders())
    assert_as_found(ground)
    _, said = bench_process.run("lab", "ls", env=ground.environment)
    assert "web-01 (root@web-01)" in said
    assert any(owner.startswith(f"{bench.pid}:") for owner in ssh_hosts.connections())
    code, said = bench_process.run("lab", "clean", env=ground.environment)
    assert (code, said.count("removed: vnetbench-root-")) == (0, 2)
    assert not any(owner.startswith(f"{bench.pid}:") for owner in ssh_hosts.connections())


def test_what_a_killed_bench_and_killed_agents_left_is_put_back_by_lab_clean(
    ground: Ground, tmp_path: Path
) -> None:
    study, results = campaign(ground, tmp_path, "30 s")
    bench = bench_process.start("run", study, "-o", results, env=ground.environment)
    await_(lambda: mtus(ground) == [1400, 1400])
    ssh_hosts.kill(*ssh_hosts.agents())
    bench_process.kill(bench)
    time.sleep(0.5)  # what would put them back in its stead has had its time
    assert mtus(ground) == [1400, 1400]
    assert len(ssh_hosts.folders()) == 2
    with ground.strangers():
        code, said = bench_process.run("lab", "clean", env=ground.environment)
    assert code == 1
    assert said.count("not removed: vnetbench-root-") == said.count("its host key is not known yet") == 2
    assert mtus(ground) == [1400, 1400]
    code, said = bench_process.run("lab", "clean", env=ground.environment)
    assert (code, said.count("removed: vnetbench-root-")) == (0, 2)
    assert_as_found(ground)


def test_a_campaign_between_this_machine_and_a_host_ends_well_over_a_slow_link_with_a_long_queue(
    ground: Ground, tmp_path: Path
) -> None:
    """The connections that it is led by share that link with its load."""
    study, results = campaign(ground, tmp_path, "400 ms", HERE + HOST.format("web-01"))
    host, switch = ground.hosts["web-01"].vm, ground.testbed.switch_namespace
    for device in (host.device, NetDevice("its port", switch, host.name)):
        shape_link(device, 5e7, "tbf", 0.08)
    try:
        code, said = bench_process.run(
            "run", study, "-o", results, env=ground.environment, inside=ground.bench.namespace
        )
        assert code == 0, said
        file = ResultsFile.open_to_read(results)
        with closing(file):
            trials, facts = list(file.trials()), file.facts()
        assert len(trials) == 2
        assert all(trial.effective["mtu"] == 1400 for trial in trials)
        assert facts["web-01"]["kernel"]
    finally:
        for device in (host.device, NetDevice("its port", switch, host.name)):
            shape_link(device, None, "tbf", "auto")
    assert_as_found(ground)
    assert netlink.interface_mtu(ground.bench.namespace, ground.bench.interface) == 1500
