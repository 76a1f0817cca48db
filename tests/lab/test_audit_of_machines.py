"""The audit of real machines: this one, in a namespace with faults, and a host over SSH."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults import bench_process as bench
from tests.lab import ssh_hosts
from tests.lab.ssh_hosts import USER, HostNetwork
from vnetbench.audit.finding import AuditResult
from vnetbench.audit.inventory import Inventory
from vnetbench.audit.judge import judge
from vnetbench.audit.linux.collect import linux_script, read_linux_listing
from vnetbench.audit.rules import load_rules
from vnetbench.commands.exit_codes import BAD_INPUT

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("real_root", "private_ssh_client")]


@pytest.fixture(scope="module")
def network() -> Iterator[HostNetwork]:
    with ssh_hosts.create_hosts("web-01") as created:
        yield created


def run_in(network: HostNetwork, *command: str) -> str:
    namespace = network.hosts["web-01"].vm.namespace
    inside = ("ip", "netns", "exec", namespace, *command)
    return subprocess.run(inside, check=True, capture_output=True, text=True).stdout


def judge_namespace(network: HostNetwork) -> tuple[Inventory, AuditResult]:
    """Run the script in the namespace of web-01."""
    inventory = read_linux_listing(run_in(network, "sh", "-c", linux_script()), "web-01")
    return inventory, judge([inventory], list(load_rules().values()))


FAULTS = {
    "tso_off": ("ethtool -K vb0 tso off", "ethtool -K vb0 tso on"),
    "gso_off": ("ethtool -K vb0 gso off", "ethtool -K vb0 gso on"),
    "tx_checksum_off": ("ethtool -K vb0 tx off", "ethtool -K vb0 tx on"),
    "selective_acknowledgements_off": (
        "echo 0 > /proc/sys/net/ipv4/tcp_sack",
        "echo 1 > /proc/sys/net/ipv4/tcp_sack",
    ),
    "window_scaling_off": (
        "echo 0 > /proc/sys/net/ipv4/tcp_window_scaling",
        "echo 1 > /proc/sys/net/ipv4/tcp_window_scaling",
    ),
    "promiscuous_mode": ("ip link set vb0 promisc on", "ip link set vb0 promisc off"),
    "port_mtu_above_bridge": (
        "ip link add br7 type bridge; ip link set vb1 master br7; ip link set br7 mtu 1400",
        "ip link del br7",
    ),
    "tunnel_mtu_too_large": (
        "ip link add vx7 type vxlan id 7 dev vb0 dstport 4789 remote 192.0.2.9; ip link set vb0 mtu 1400",
        "ip link del vx7; ip link set vb0 mtu 1500",
    ),
}
"""Rule, and the commands that plant its fault in a namespace and remove it."""


@pytest.fixture(scope="module")
def pair(network: HostNetwork) -> Iterator[HostNetwork]:
    """Add a pair of interfaces for faults."""
    run_in(
        network, "sh", "-c", "ip link add vb0 type veth peer vb1 && ip link set vb0 up && ip link set vb1 up"
    )
    yield network
    run_in(network, "ip", "link", "del", "vb0")


@pytest.mark.parametrize("rule", FAULTS)
def test_a_fault_of_a_real_namespace_is_found_and_gone_with_its_cause(pair: HostNetwork, rule: str) -> None:
    plant, remove = FAULTS[rule]
    if plant.startswith("ethtool") and shutil.which("ethtool") is None:
        pytest.skip("ethtool is not installed")
    before = {finding.key for finding in judge_namespace(pair)[1].findings}
    assert not {name for _, _, name in before} & {"vb0", "vb1"}
    run_in(pair, "sh", "-ec", plant)
    try:
        during = {finding.key for finding in judge_namespace(pair)[1].findings}
    finally:
        run_in(pair, "sh", "-c", remove)
    assert rule in {found_rule for found_rule, _, _ in during - before}
    assert {finding.key for finding in judge_namespace(pair)[1].findings} == before


def test_the_audit_over_ssh_reads_what_the_host_itself_reads(network: HostNetwork) -> None:
    here, _ = judge_namespace(network)
    for user in ("root", USER):
        _, output = bench.run("audit", "--json", f"{user}@web-01", env=network.environment)
        document = json.loads(output)
        assert document["targets"] == [f"{user}@web-01"] and document["rules_applied"] > 10
    assert "eth0" in {each.name for each in here.of_kind("interface")}


def test_the_audit_changes_nothing_and_leaves_nothing_on_the_host(network: HostNetwork) -> None:
    folder = ssh_hosts.ROOT / "web-01" / USER
    before = run_in(network, "ip", "-json", "-details", "link", "show")
    bench.run("audit", f"{USER}@web-01", env=network.environment)
    assert run_in(network, "ip", "-json", "-details", "link", "show") == before
    assert list(folder.iterdir()) == []
    ssh_hosts.wait_until(lambda: not network.hosts["web-01"].connections())


def test_an_unknown_host_gives_one_sentence(network: HostNetwork, tmp_path: Path) -> None:
    code, output = bench.run("audit", "root@nowhere-07", env=network.environment)
    assert code == BAD_INPUT and "the host's name has no address" in output and "fix: " in output


def test_this_machine_is_audited_without_a_target() -> None:
    _, output = bench.run("audit", "--json")
    document = json.loads(output)
    assert document["targets"] == ["local"] and document["rules_applied"] > 10
