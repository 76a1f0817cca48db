"""Tests of campaigns with an endpoint that only has an iperf3 server: killed, resumed, without a server."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults import bench_process as bench
from tests.free_ports import take_free_port
from tests.iperf3 import programs

STUDY = """\
title = "Appliance"
[testbed]
lab = "hosts"
[[testbed.host]]
name = "esx-07"
iperf3 = "127.0.0.1:{port}"
[factors]
streams = [1, 2]
direction = ["forward", "reverse"]
[timing]
duration = "200 ms"
[precision]
half_width = "0.1 %"
min_trials = {blocks}
max_trials = {blocks}
"""


def write_study(folder: Path, port: int) -> Path:
    return bench.write_study(folder, STUDY.format(port=port, blocks=bench.BLOCKS))


@pytest.fixture
def port() -> Iterator[int]:
    """Provide the port of a running stock server."""
    port = take_free_port()
    with start_server(port) as server:
        yield port
        server.kill()


def start_server(port: int) -> subprocess.Popen[bytes]:
    command = [programs.stock_iperf3(), "-s", "-B", programs.HOST, "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    programs.wait_for_listener(port, process)
    return process


def test_a_killed_campaign_resumes_and_its_report_names_the_missing_data(tmp_path: Path, port: int) -> None:
    study, results = write_study(tmp_path, port), tmp_path / "r.vnb"
    process = bench.start("run", study, "-o", results)
    bench.wait_for_trials(results, 3)
    bench.kill(process)
    kept = set(bench.trials(results))
    code, output = bench.run("resume", results)
    assert code == 0, output
    assert kept <= set(bench.trials(results))
    assert Counter(bench.trials(results)) == Counter((t, b) for t in range(4) for b in range(bench.BLOCKS))
    assert "esx-07 runs iperf3 without an agent" in bench.run("show", results)[1]
    export = json.loads(bench.run("show", "--json", results)[1])
    assert [end["name"] for end in export["testbed"]["endpoints"]] == ["here", "esx-07"]
    assert all(t["metrics"]["goodput_bps"]["value"] > 0 for t in export["treatments"])
    page = tmp_path / "r.html"
    assert bench.run("report", results, "-o", page)[0] == 0
    assert "esx-07 runs iperf3 without an agent" in page.read_text()
    assert bench.run("compare", results, results)[0] == 0


def test_a_server_that_ends_costs_no_finished_trial(tmp_path: Path) -> None:
    port = take_free_port()
    study, results = write_study(tmp_path, port), tmp_path / "r.vnb"
    with start_server(port) as server:
        process = bench.start("run", study, "-o", results)
        bench.wait_for_trials(results, 4)
        server.kill()
    output, _ = process.communicate(timeout=bench.PATIENCE_S)
    kept = set(bench.trials(results))
    assert "3 trials in a row failed" in output
    assert "Traceback" not in output
    code, output = bench.run("resume", results)
    assert (code, "Connection refused" in output) == (2, True)
    with start_server(port) as server:
        assert bench.run("resume", results)[0] == 0
        server.kill()
    assert kept <= set(bench.trials(results))
    bench.assert_complete(results)


def test_without_a_server_no_campaign_starts(tmp_path: Path) -> None:
    port = take_free_port()
    study, results = write_study(tmp_path, port), tmp_path / "r.vnb"
    code, output = bench.run("run", study, "-o", results)
    assert code == 2
    assert "esx-07 (127.0.0.1" in output
    assert "fix: start a server (iperf3 -s)" in output
    assert not results.exists()


def test_doctor_lists_what_a_server_supports(port: int) -> None:
    code, output = bench.run("doctor", "--iperf3", f"127.0.0.1:{port}")
    assert code == 0, output
    assert output.count("measured") == 3
    assert "does not report its version" in output
    code, output = bench.run("doctor", "--iperf3", f"127.0.0.1:{take_free_port()}")
    assert (code, "missing" in output) == (1, True)
