"""Which peers are found, and what BENCH_PEERS may say."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.binaries import find
from vnetbench.errors import BenchError


def program(path: Path, prints: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{prints}'\n")
    path.chmod(0o755)
    return path


def labels(peers: str, path: Path) -> list[str]:
    found, _ = find({"PATH": str(path), "BENCH_PEERS": peers})
    return [binary.label for binary in found]


def test_peers_come_from_the_path_and_newer_ones_beside_them(tmp_path: Path) -> None:
    program(tmp_path / "bin/iperf3", "iperf 3.12 (cJSON 1.7.15)")
    newer = program(tmp_path / "new/iperf3-3.21", "iperf 3.21+ (cJSON 1.7.15)")
    assert labels(f"iperf3={newer}", tmp_path / "bin") == ["iperf3 3.12", "iperf3 3.21+"]


def test_a_peer_of_several_programs_is_named_by_its_folder_or_one_of_them(tmp_path: Path) -> None:
    for name in ("netperf", "netserver"):
        program(tmp_path / "my netperf" / name, "Netperf version 2.7.1")
    folder = tmp_path / "my netperf"
    assert labels(f"'netperf={folder}'", tmp_path) == ["netperf 2.7.1"]
    assert labels(f"netperf='{folder / 'netperf'}'", tmp_path) == ["netperf 2.7.1"]


def test_a_program_named_twice_is_one_peer(tmp_path: Path) -> None:
    nuttcp = program(tmp_path / "nuttcp", "nuttcp-6.1.2")
    assert labels(f"nuttcp={nuttcp} nuttcp={nuttcp}", tmp_path) == ["nuttcp 6.1.2"]


def test_what_is_not_here_is_said(tmp_path: Path) -> None:
    program(tmp_path / "sockperf", "sockperf, version 3.7-no.git")
    found, missing = find({"PATH": str(tmp_path)})
    assert [binary.label for binary in found] == ["sockperf 3.7"]
    assert [line.split()[0] for line in missing] == ["iperf3", "nuttcp", "netperf", "neper", "ntttcp"]
    assert missing[0] == "iperf3 is not here: apt-get install iperf3, or name its binary in BENCH_PEERS"
    assert missing[2] == "netperf is not here: name its binary in BENCH_PEERS"


@pytest.mark.parametrize(
    ("peers", "says"),
    [
        ("/opt/iperf3", "'/opt/iperf3' is not NAME=PATH"),
        ("iperf3=", "is not NAME=PATH"),
        ("iperf2=/usr/bin/iperf", "'iperf2' is no peer"),
        ("iperf3=/nowhere/iperf3", "/nowhere/iperf3 is not there, or is no program"),
        ("iperf3='/opt/a", "cannot be read: No closing quotation"),
        ("netperf=/bin", "/bin/netperf is not there"),
        ("iperf3=/bin/true", "/bin/true is no iperf3: it does not say so"),
    ],
)
def test_bad_input_is_named_with_its_fix(peers: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=says) as refused:
        find({"PATH": str(tmp_path), "BENCH_PEERS": peers})
    assert refused.value.fix
