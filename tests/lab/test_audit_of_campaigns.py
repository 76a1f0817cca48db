"""The audit that a campaign over hosts stores, and what show, explain and compare make of it."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults import bench_process as bench
from tests.lab import ssh_hosts
from tests.lab.ssh_hosts import HostNetwork
from vnetbench.audit.stored import AUDIT_FACTS_SUBJECT
from vnetbench.results.file import ResultsFile

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("real_root", "private_ssh_client")]

STUDY = """\
title = "Two hosts"
workload = "tcp_stream"

[factors]
streams = 1

[testbed]
lab = "hosts"

[[testbed.host]]
name = "web-01"
ssh = "root@web-01"

[[testbed.host]]
name = "web-02"
ssh = "root@web-02"

[timing]
duration = "300 ms"

[precision]
min_trials = 2
max_trials = 2
"""


@pytest.fixture(scope="module")
def network() -> Iterator[HostNetwork]:
    with ssh_hosts.create_hosts("web-01", "web-02") as created:
        yield created


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audited")


def run_at(network: HostNetwork, name: str, command: str) -> None:
    inside = ("ip", "netns", "exec", network.hosts[name].vm.namespace, "sh", "-ec", command)
    subprocess.run(inside, check=True)


def run_campaign(network: HostNetwork, folder: Path, name: str, *options: str) -> Path:
    results = folder / f"{name}.vnb"
    code, output = bench.run(
        "run", bench.write_study(folder, STUDY), "-o", results, *options, env=network.environment
    )
    assert code == 0, output
    return results


@pytest.fixture(scope="module")
def campaigns(network: HostNetwork, folder: Path) -> tuple[Path, Path]:
    """Run a campaign without TSO at web-01 and with small buffers at web-02, and one without faults."""
    run_at(network, "web-01", "ethtool -K eth0 tso off")
    run_at(network, "web-02", "echo 4096 16384 65536 > /proc/sys/net/ipv4/tcp_rmem")
    faulty = run_campaign(network, folder, "faulty")
    run_at(network, "web-01", "ethtool -K eth0 tso on")
    run_at(network, "web-02", "echo 4096 131072 33554432 > /proc/sys/net/ipv4/tcp_rmem")
    return faulty, run_campaign(network, folder, "corrected")


def stored_audit(results: Path) -> dict[str, object]:
    file = ResultsFile.open_to_read(results)
    try:
        return file.facts().get(AUDIT_FACTS_SUBJECT, {})
    finally:
        file.close()


def run_json(*arguments: str | Path) -> dict[str, object]:
    code, output = bench.run(*arguments)
    assert code == 0, output
    document: dict[str, object] = json.loads(output)
    return document


def test_a_campaign_over_hosts_stores_the_audit_of_both(campaigns: tuple[Path, Path]) -> None:
    stored = stored_audit(campaigns[0])
    assert set(stored) == {"web-01", "web-02"}
    assert len(json.dumps(stored)) < 32_000, "the audit stays small beside the samples"
    audit = run_json("show", "--json", campaigns[0])["audit"]
    assert isinstance(audit, dict) and audit["not_read"] == {}
    found = {(each["rule"], each["target"]) for each in audit["findings"]}
    planted = {"tso_off", "receive_buffer_small"}
    assert {each for each in found if each[0] in planted} == {
        ("tso_off", "web-01"), ("receive_buffer_small", "web-02"),
    }  # fmt: skip


def test_show_names_the_wrong_setting_with_its_fix(campaigns: tuple[Path, Path]) -> None:
    _, output = bench.run("show", campaigns[0])
    settings = output[output.index("rules that apply here") :]
    assert "warning: TCP segmentation offload is off" in settings and "ethtool -K eth0 tso on" in settings
    assert "Matters:" in settings


def test_compare_says_first_which_setting_differs(campaigns: tuple[Path, Path]) -> None:
    code, output = bench.run("compare", *campaigns)
    assert code == 0
    first, _, *rows = output[: output.index("before: ")].splitlines()
    assert first.endswith("differ between the campaigns:"), output
    settings = {cells[0]: cells[1:] for cells in (re.split("  +", row) for row in rows) if len(cells) == 3}
    assert settings["web-01, eth0: tso"] == ["off", "on"]
    assert settings["web-02: tcp_receive_buffer_max"] == ["65,536", "33,554,432"]


def test_an_audit_can_be_left_out(network: HostNetwork, folder: Path, campaigns: tuple[Path, Path]) -> None:
    results = run_campaign(network, folder, "unaudited", "--no-audit")
    assert stored_audit(results) == {}
    assert run_json("show", "--json", results)["audit"] is None
    _, output = bench.run("compare", campaigns[0], results)
    assert output.startswith("The campaign after has no audit")
