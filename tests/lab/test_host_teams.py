"""Tests of teams on hosts reached by SSH: bonds of Open vSwitch that join two hosts, read and measured."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.faults import bench_process as bench
from tests.lab import ssh_hosts
from tests.lab.ssh_hosts import Host, HostNetwork
from tests.lab.team_links import SOURCE_PORTS, check_links_with_data
from vnetbench.campaign.instrument import CompletedTrial, LabInstrument
from vnetbench.campaign.trial import TrialLoad
from vnetbench.estimate.evidence.teams import team_evidence
from vnetbench.estimate.steady_state import select_steady_part
from vnetbench.estimate.team_traffic import TeamTraffic, collect_team_traffic
from vnetbench.estimate.trial_metrics import trial_metrics
from vnetbench.lab import netlink, registry
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.lab.hosts.testbed import HostsLab
from vnetbench.lab.netns.open_vswitch import SCHEMA_FILE
from vnetbench.results.records import TrialRecord
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.labs import HOSTS
from vnetbench.study.model import ExistingEndpointSpec, Level, TestbedSpec

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("real_root", "private_ssh_client")]

NAMES = ("team-01", "team-02")
ADDRESSES = {"team-01": "10.77.0.1", "team-02": "10.77.0.2"}
MEMBERS = ("p0", "p1", "p2")
STREAMS = 12
STUDY = """\
title = "Bond of team-01"
question = "Do more streams use more links of the bond?"
workload = "tcp_stream"

[testbed]
lab = "hosts"

[[testbed.host]]
name = "team-01"
ssh = "root@team-01"
address = "10.77.0.1"

[[testbed.host]]
name = "team-02"
ssh = "root@team-02"
address = "10.77.0.2"

[factors]
streams = [1, 6]

[timing]
duration = "1 s"

[precision]
min_trials = 3
max_trials = 3
"""
RUN_FOLDER = "/run/openvswitch"
START_SWITCH = (
    f"mkdir -p {RUN_FOLDER} && mount -t tmpfs switch {RUN_FOLDER} "
    f"&& export {registry.PROCESS_LABEL}={ssh_hosts.NAME} OVS_LOGDIR={RUN_FOLDER} "
    f"&& ovsdb-tool create {RUN_FOLDER}/conf.db {SCHEMA_FILE} "
    f"&& ovsdb-server {RUN_FOLDER}/conf.db --remote=punix:{RUN_FOLDER}/db.sock --pidfile --detach --no-chdir "
    "&& ovs-vsctl --no-wait init && ovs-vswitchd --pidfile --detach --no-chdir"
)


def run_on(host: Host, script: str) -> str:
    """Run a script in the host's namespaces, as its administrator would."""
    command = ["nsenter", "-t", str(host.sshd.pid), "-m", "-n", "sh", "-ec", script]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def network() -> Iterator[HostNetwork]:
    with ssh_hosts.create_hosts() as created:
        first, second = (created.add(name, START_SWITCH) for name in NAMES)
        with netlink.open_in_namespace(first.vm.namespace) as ipr:
            for name in MEMBERS:
                peer = {"ifname": name, "net_ns_fd": second.vm.namespace}
                ipr.link("add", ifname=name, kind="veth", peer=peer)
        for host in (first, second):
            bond = f"add-bond br0 bond0 {' '.join(MEMBERS)} bond_mode=balance-tcp lacp=active"
            run_on(
                host,
                "ovs-vsctl add-br br0 -- set bridge br0 datapath_type=netdev "
                f"-- {bond} other_config:lacp-time=fast\n"
                + "\n".join(f"sysctl -qw {' '.join(silence(name))}" for name in MEMBERS)
                + "\n"
                + "\n".join(f"ip link set {name} up" for name in (*MEMBERS, "br0"))
                + f"\nip address add {ADDRESSES[host.name]}/24 dev br0",
            )
        wait_for_lacp(first, second)
        yield created


def silence(member: str) -> list[str]:
    """Return the settings by which the kernel ignores packets at a member, which belong to the switch only.

    Otherwise it answers ARP with the member's address, and takes packets a second time.
    """
    settings = f"net.ipv4.conf.{member}"
    return [f"{settings}.arp_ignore=8", f"{settings}.rp_filter=1", f"net.ipv6.conf.{member}.disable_ipv6=1"]


def wait_for_lacp(*hosts: Host) -> None:
    """Wait until all members of the bonds may send and receive: a host drops what arrives on others."""
    for host in hosts:
        ssh_hosts.wait_until(partial(is_ready, host))


def is_ready(host: Host) -> bool:
    state = run_on(host, "ovs-appctl bond/show bond0")
    return "lacp_status: negotiated" in state and state.count(": enabled") == len(MEMBERS)


def measure(**levels: Level) -> CompletedTrial:
    endpoints = tuple(
        ExistingEndpointSpec(name, ssh_destination=f"root@{name}", address=ADDRESSES[name]) for name in NAMES
    )
    spec = TestbedSpec(lab=HOSTS, existing_endpoints=endpoints)
    load = TrialLoad(complete_levels(levels, "tcp_stream", HOSTS), 0.5, 0.1, "tcp_stream")
    with closing(LabInstrument(HostsLab(spec, "a test"), spec)) as instrument:
        done: CompletedTrial = instrument.measure(load, lambda: False)
        return done


def make_record(done: CompletedTrial) -> TrialRecord:
    measured = done.measurement
    return TrialRecord(0, 0, "", 0.0, 0.5, 0.0, measured.effective, measured.endpoints)


def links_with_data(team: TeamTraffic, direction: str) -> list[bool]:
    return [getattr(link, direction).share > 0.01 for link in team.links]


def test_each_member_carries_the_flows_that_its_bond_was_read_to_give_it(network: HostNetwork) -> None:
    record = make_record(measure(streams=STREAMS, source_ports=SOURCE_PORTS))
    sender, receiver = collect_team_traffic(select_steady_part(record, 0))
    assert (sender.name, sender.policy, sender.lacp) == ("team-01 bond0", "balance-tcp", "negotiated")
    assert sorted(link.name for link in sender.links) == list(MEMBERS)
    assert all(link.is_attached and link.is_enabled for link in sender.links)
    predicted = [link.forward.predicted_flows for link in sender.links]
    assert sum(flows or 0 for flows in predicted) == STREAMS, "the tables of the bond name all members"
    check_links_with_data(record, sender, "team-01")
    # What one host sends by a member, the other one receives by the member of this name.
    received = {link.name: link.forward.packets_received for link in receiver.links}
    for link in sender.links:
        assert received[link.name] == pytest.approx(link.forward.packets, rel=0.2, abs=200)
    assert receiver.open_flows["forward"] == STREAMS, "the other host's switch decides where frames arrive"
    answers = [link.reverse.predicted_flows for link in receiver.links]
    assert sum(flows or 0 for flows in answers) == STREAMS


def test_the_metrics_and_the_evidence_of_teams_come_from_the_hosts_counters(network: HostNetwork) -> None:
    record = make_record(measure(streams=STREAMS))
    metrics = trial_metrics(record, 0)
    (sender, _) = collect_team_traffic(part := select_steady_part(record, 0))
    assert metrics["team_links_used_forward"] == sum(links_with_data(sender, "forward"))
    assert 100 / len(MEMBERS) <= metrics["team_busiest_link_forward_percent"] <= 100
    evidence = team_evidence(SimpleNamespace(steady_part=part))  # type: ignore[arg-type]
    assert (evidence["team_links"], evidence["team_flows"]) == (len(MEMBERS), STREAMS)
    assert evidence["team_links_without_lacp"] == 0


@contextmanager
def one_active_member(network: HostNetwork) -> Iterator[None]:
    """Let both bonds send everything by p1."""
    hosts = [network.hosts[name] for name in NAMES]
    for host in hosts:
        run_on(host, "ovs-vsctl set port bond0 bond_mode=active-backup other_config:bond-primary=p1")
    try:
        wait_for_lacp(*hosts)
        yield
    finally:
        for host in hosts:
            run_on(host, "ovs-vsctl set port bond0 bond_mode=balance-tcp")
        wait_for_lacp(*hosts)


@contextmanager
def slow_members(network: HostNetwork) -> Iterator[None]:
    """Shape what each host sends by a member, so that the links limit and not the CPUs."""
    hosts = [network.hosts[name] for name in NAMES]
    for host in hosts:
        for name in MEMBERS:
            run_on(host, f"tc qdisc replace dev {name} root tbf rate 40mbit burst 128k latency 20ms")
    try:
        yield
    finally:
        for host in hosts:
            for name in MEMBERS:
                run_on(host, f"tc qdisc del dev {name} root")


def test_a_bond_with_one_active_member_sends_all_by_it(network: HostNetwork) -> None:
    with one_active_member(network):
        record = make_record(measure(streams=4))
    sender, _ = collect_team_traffic(select_steady_part(record, 0))
    carried = {link.name: link.forward.predicted_flows for link in sender.links}
    assert carried == {"p0": 0, "p1": 4, "p2": 0}
    assert trial_metrics(record, 0)["team_links_used_forward"] == 1


def test_a_campaign_shows_draws_and_explains_the_bonds_of_two_hosts(
    network: HostNetwork, tmp_path: Path
) -> None:
    results, page = tmp_path / "bond.vnb", tmp_path / "bond.html"
    study = bench.write_study(tmp_path, STUDY)
    with one_active_member(network), slow_members(network):
        code, output = bench.run("run", study, "-o", results, env=network.environment)
    assert code == 0, output
    code, output = bench.run_warm("show", results, "--json")
    assert code == 0, output
    treatments = {each["factors"]["streams"]: each for each in json.loads(output)["treatments"]}
    for streams, treatment in treatments.items():
        assert len(treatment["trials"]) == 3
        for trial in treatment["trials"]:
            sender, _ = trial["teams"]
            assert (sender["name"], sender["policy"]) == ("team-01 bond0", "active-backup")
            flows = {link["name"]: link["forward"]["predicted_flows"] for link in sender["links"]}
            assert flows == {"p0": 0, "p1": streams, "p2": 0}
            assert trial["values"]["team_links_used_forward"] == 1
    code, output = bench.run_warm("explain", results, "--json", "--treatment", "streams=6")
    assert code == 0, output
    causes = [each["cause"] for finding in json.loads(output)["findings"] for each in finding["candidates"]]
    assert "one_uplink" in causes
    code, output = bench.run_warm("report", results, "-o", page)
    assert code == 0, output
    assert {"Links of the team", "team-links"} <= set(
        re.findall("Links of the team|team-links", page.read_text())
    )


def test_a_hash_policy_of_linux_is_refused_on_a_bond_of_another_kind(network: HostNetwork) -> None:
    before = run_on(network.hosts["team-01"], "ovs-appctl bond/show bond0")
    with pytest.raises(TreatmentRefused) as refused:
        measure(team_hash_policy="layer3+4")
    assert "team_hash_policy = layer3+4 cannot be set" in str(refused.value)
    assert "Linux bond" in str(refused.value.fix)
    assert "bond_mode: balance-tcp" in before
