"""Peers from PATH and from BENCH_PEERS."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.binaries import find_binaries
from vnetbench.errors import BenchError


def write_program(path: Path, output: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{output}'\n")
    path.chmod(0o755)
    return path


def labels(peers: str, path: Path) -> list[str]:
    binaries, _ = find_binaries({"PATH": str(path), "BENCH_PEERS": peers})
    return [binary.label for binary in binaries]


def test_peers_come_from_the_path_and_from_the_variable(tmp_path: Path) -> None:
    write_program(tmp_path / "bin/iperf3", "iperf 3.12 (cJSON 1.7.15)")
    newer = write_program(tmp_path / "new/iperf3-3.21", "iperf 3.21+ (cJSON 1.7.15)")
    assert labels(f"iperf3={newer}", tmp_path / "bin") == ["iperf3 3.12", "iperf3 3.21+"]


def test_the_variable_accepts_the_folder_or_the_first_program_of_a_peer(tmp_path: Path) -> None:
    for name in ("netperf", "netserver"):
        write_program(tmp_path / "my netperf" / name, "Netperf version 2.7.1")
    folder = tmp_path / "my netperf"
    assert labels(f"'netperf={folder}'", tmp_path) == ["netperf 2.7.1"]
    assert labels(f"netperf='{folder / 'netperf'}'", tmp_path) == ["netperf 2.7.1"]


def test_a_path_that_occurs_twice_is_one_peer(tmp_path: Path) -> None:
    nuttcp = write_program(tmp_path / "nuttcp", "nuttcp-6.1.2")
    assert labels(f"nuttcp={nuttcp} nuttcp={nuttcp}", tmp_path) == ["nuttcp 6.1.2"]


def test_missing_peers_are_listed_with_a_hint(tmp_path: Path) -> None:
    write_program(tmp_path / "sockperf", "sockperf, version 3.7-no.git")
    binaries, missing = find_binaries({"PATH": str(tmp_path)})
    assert [binary.label for binary in binaries] == ["sockperf 3.7"]
    assert [line.split()[0] for line in missing] == ["iperf3", "nuttcp", "netperf", "neper", "ntttcp", "xfr"]
    assert (
        missing[0] == "iperf3 is not installed. Run apt-get install iperf3, or set its path in BENCH_PEERS."
    )
    assert missing[2] == "netperf is not installed. Set its path in BENCH_PEERS."


@pytest.mark.parametrize(
    ("peers", "message"),
    [
        ("/opt/iperf3", "'/opt/iperf3' is not of the form NAME=PATH"),
        ("iperf3=", "is not of the form NAME=PATH"),
        ("iperf2=/usr/bin/iperf", "'iperf2' is not a supported peer"),
        ("iperf3=/nowhere/iperf3", "/nowhere/iperf3 does not exist or is not executable"),
        ("iperf3='/opt/a", "cannot parse BENCH_PEERS: No closing quotation"),
        ("netperf=/bin", "/bin/netperf does not exist"),
        ("iperf3=/bin/true", "/bin/true does not print a version of iperf3"),
    ],
)
def test_an_invalid_variable_is_reported_with_a_fix(peers: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=message) as raised:
        find_binaries({"PATH": str(tmp_path), "BENCH_PEERS": peers})
    assert raised.value.fix
