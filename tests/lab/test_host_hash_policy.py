"""Tests of the hash policy of a host's Linux bond over SSH: it is set, read back, and restored after kill -9.

The machine's kernel need not have the bonding driver: a file in a layer over the interface's folder of sysfs
stands for the driver's option.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.faults import bench_process as bench
from tests.lab import ssh_hosts
from tests.lab.ssh_hosts import HostNetwork
from vnetbench.agents.client import AgentError
from vnetbench.lab.hosts.testbed import HostsLab
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.labs import HOSTS
from vnetbench.study.model import TestbedSpec

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("real_root", "private_ssh_client")]

NAMES = ("bond-01", "bond-02")
BEFORE, SET = "layer2", "layer3+4"
OPTION = "/sys/class/net/eth0/bonding/xmit_hash_policy"
ADD_OPTION = (
    "mkdir -p /run/layer && mount -t tmpfs layer /run/layer && mkdir /run/layer/upper /run/layer/work "
    "&& folder=$(readlink -f /sys/class/net/eth0) && mount -t overlay layer "
    '-o "lowerdir=$folder,upperdir=/run/layer/upper,workdir=/run/layer/work" "$folder" '
    f"&& mkdir $folder/bonding && echo '{BEFORE} 0' > {OPTION}"
)
STUDY = f"""\
title = "Hash policy"
workload = "tcp_stream"

[testbed]
lab = "hosts"

[[testbed.host]]
name = "bond-01"
ssh = "root@bond-01"

[[testbed.host]]
name = "bond-02"
ssh = "root@bond-02"

[factors]
team_hash_policy = "{SET}"

[timing]
duration = "200 ms"

[precision]
half_width = "0.1 %"
min_trials = 2000
max_trials = 2000
"""


@pytest.fixture(scope="module")
def network() -> Iterator[HostNetwork]:
    with ssh_hosts.create_hosts() as created:
        for name in NAMES:
            created.add(name, ADD_OPTION)
        yield created


def read_policies(network: HostNetwork) -> set[str]:
    """Return the policies of all hosts, without the number that the kernel adds."""
    commands = [["nsenter", "-t", str(network.hosts[name].sshd.pid), "-m", "cat", OPTION] for name in NAMES]
    texts = [subprocess.run(each, capture_output=True, text=True, check=True).stdout for each in commands]
    return {text.split()[0] for text in texts}


def test_the_hash_policy_is_set_read_back_and_restored_when_agents_were_killed(network: HostNetwork) -> None:
    spec = TestbedSpec(lab=HOSTS, existing_endpoints=tuple(network.hosts[name].spec for name in NAMES))
    lab = HostsLab(spec, "a test")
    with closing(lab.create_testbed("hash-policy-test", lab.testbed_shape({}))) as testbed:
        levels = complete_levels({"team_hash_policy": SET}, "tcp_stream", HOSTS)
        assert testbed.set_knobs_and_prove_paths(levels, spec)["team_hash_policy"] == SET
        assert read_policies(network) == {SET}
        ssh_hosts.kill(*ssh_hosts.agents())
        with pytest.raises(AgentError, match="killed"):
            testbed.agents["bond-01"].call("agent.hello")
        assert read_policies(network) == {SET}
    assert read_policies(network) == {BEFORE}


def test_the_agents_restore_the_hash_policy_of_a_bench_that_was_killed(
    network: HostNetwork, tmp_path: Path
) -> None:
    study = bench.write_study(tmp_path, STUDY)
    process = bench.start("run", study, "-o", tmp_path / "killed.vnb", env=network.environment)
    try:
        ssh_hosts.wait_until(lambda: read_policies(network) == {SET})
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    ssh_hosts.wait_until(lambda: read_policies(network) == {BEFORE})
    # The bench's own records of the hosts are left.
    code, output = bench.run("lab", "clean", env=network.environment)
    assert code == 0, output
    assert read_policies(network) == {BEFORE}
