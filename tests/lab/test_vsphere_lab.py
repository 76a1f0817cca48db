"""The lab `vsphere`: a campaign over VMs of the simulator, whose addresses are hosts with a real sshd."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.faults import bench_process as bench
from tests.lab import ssh_hosts, vsphere_vms
from tests.lab.ssh_hosts import HostNetwork, wait_until
from tests.vsphere_server import PASSWORD, VsphereServer, list_vms, running_server
from vnetbench.lab import netlink
from vnetbench.lab.vsphere.password import PASSWORD_VARIABLE
from vnetbench.results.file import ResultsFile

pytest.importorskip("pyVmomi")
pytestmark = pytest.mark.lab

NAMES = ("web-01", "web-02")
STUDY = """\
title = "Adapters of VMs"
workload = "tcp_rr"

[testbed]
lab = "vsphere"
connection = "{connection}"

[[testbed.host]]
name = "web-01"
ssh = "root@web-01"
domain = "web-01"

[[testbed.host]]
name = "web-02"
ssh = "root@web-02"
domain = "web-02"

[factors]
adapter = ["vmxnet3", "e1000"]
latency_sensitivity = "high"

[timing]
duration = "500 ms"

[precision]
min_trials = 2
max_trials = {trials}
half_width = "0.1 %"
"""


@pytest.fixture(scope="module")
def network() -> Iterator[HostNetwork]:
    with ssh_hosts.create_hosts(*NAMES) as created:
        yield created


@pytest.fixture
def server(tmp_path: Path, network: HostNetwork, monkeypatch: pytest.MonkeyPatch) -> Iterator[VsphereServer]:
    monkeypatch.setenv(PASSWORD_VARIABLE, PASSWORD)
    with running_server(tmp_path) as running:
        with running.session() as content:
            for vm, name in zip(list_vms(content), NAMES, strict=False):
                vsphere_vms.prepare_vm(vm, name, read_mac(network, name))
        yield running


def read_mac(network: HostNetwork, name: str) -> str:
    host = network.hosts[name]
    with netlink.open_in_namespace(host.vm.namespace) as ipr:
        (link,) = ipr.get_links(netlink.interface_index(ipr, host.vm.interface))
        return str(link.get_attr("IFLA_ADDRESS"))


def environment(network: HostNetwork) -> Mapping[str, str]:
    return {**network.environment, PASSWORD_VARIABLE: PASSWORD}


def write_study(folder: Path, server: VsphereServer, trials: int = 2) -> Path:
    return bench.write_study(folder, STUDY.format(connection=server.address, trials=trials))


def read_vm_settings(effective: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    found = effective["vm_settings"]
    assert isinstance(found, dict)
    return found


def test_a_campaign_changes_measures_and_restores_the_vms(
    server: VsphereServer, network: HostNetwork, tmp_path: Path
) -> None:
    vsphere_vms.power_off(server, "web-02")
    before = [vsphere_vms.describe_vm(server, name) for name in NAMES]
    results = tmp_path / "adapters.vnb"
    study = write_study(tmp_path, server)
    code, planned = bench.run("run", "--plan", study, env=environment(network))
    assert code == 0 and "changes and restarts these VMs of vsphere://" in planned
    assert "web-01, web-02" in planned and "adapter=e1000 latency_sensitivity=high" in planned
    assert [vsphere_vms.describe_vm(server, name) for name in NAMES] == before and not results.exists()
    process = bench.start("run", study, "-o", results, env=environment(network))
    wait_until(
        lambda: (
            process.poll() is not None
            or all(vsphere_vms.adapter_level(server, name) == "e1000" for name in NAMES)
        )
    )
    output, _ = process.communicate(timeout=bench.PATIENCE_S)
    assert process.returncode == 0 and "Traceback" not in output, output
    assert "changes and restarts these VMs" in output
    file = ResultsFile.open_to_read(results)
    try:
        adapters = {treatment.index: treatment.factors["adapter"] for treatment in file.treatments()}
        trials = list(file.trials())
    finally:
        file.close()
    assert len(trials) == 4 and not any(trial.failure for trial in trials)
    for trial in trials:
        for name in NAMES:
            settings = read_vm_settings(trial.effective)[name]
            assert settings["adapter"] == adapters[trial.treatment]
            assert settings["latency_sensitivity"] == "high"
    assert [vsphere_vms.describe_vm(server, name) for name in NAMES] == before
    assert PASSWORD.encode() not in results.read_bytes()
    assert not list(Path(network.environment["XDG_STATE_HOME"]).rglob("domains/*.json"))
    assert ssh_hosts.agents() == {} and ssh_hosts.folders() == []


def test_lab_clean_restores_the_vms_of_a_killed_campaign(
    server: VsphereServer, network: HostNetwork, tmp_path: Path
) -> None:
    before = [vsphere_vms.describe_vm(server, name) for name in NAMES]
    study = write_study(tmp_path, server, trials=2000)
    process = bench.start("run", study, "-o", tmp_path / "killed.vnb", env=environment(network))
    wait_until(
        lambda: (
            process.poll() is not None
            or any(vsphere_vms.adapter_level(server, name) == "e1000" for name in NAMES)
        )
    )
    assert process.poll() is None, process.communicate()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    code, listed = bench.run("lab", "ls", env=environment(network))
    assert code == 0 and all(name in listed for name in NAMES)
    code, output = bench.run("lab", "clean", env=environment(network))
    assert code == 0 and output.count("Restored VM web-0") == 2, output
    assert [vsphere_vms.describe_vm(server, name) for name in NAMES] == before
    wait_until(lambda: not ssh_hosts.agents() and not ssh_hosts.folders())
