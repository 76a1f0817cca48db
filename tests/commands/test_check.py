"""`vnetbench check` with real traffic: a lab with a shaped link, two hosts over SSH, and an iperf3 server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.faults import bench_process as bench
from tests.free_ports import take_free_port
from tests.lab.ssh_hosts import create_hosts
from vnetbench.commands import exit_codes
from vnetbench.estimate.stored_summary import read_or_compute_summary
from vnetbench.results.file import ResultsFile

pytestmark = [pytest.mark.lab]

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/check.schema.json").read_text(encoding="utf-8"))


def check(*arguments: str | Path, **options: Any) -> tuple[int, dict[str, Any]]:
    """Run a quick check and return its exit code and its document, which is all of standard output."""
    command = [sys.executable, "-m", "vnetbench", "check", "--quick", "--json", *map(str, arguments)]
    run = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, **options)
    assert run.stdout, run.stderr
    document: dict[str, Any] = json.loads(run.stdout)
    jsonschema.validate(document, SCHEMA)
    return run.returncode, document


def leftover_folders() -> set[Path]:
    return set(Path(os.environ["TMPDIR"]).glob("vnetbench-check-*"))


@pytest.fixture(autouse=True)
def own_temporary_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give the checks a folder that other checks on this machine do not write to.

    Its path is short, because sockets of SSH are below it.
    """
    with tempfile.TemporaryDirectory(prefix="vnb-") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        yield


@contextmanager
def iperf3_server() -> Iterator[tuple[int, subprocess.Popen[str]]]:
    port = take_free_port()
    process = bench.start("iperf3", "serve", "-p", str(port))
    try:
        yield port, process
    finally:
        process.kill()
        process.communicate()


def test_a_shaped_link_of_the_lab_is_named_first_and_three_results_files_stay(tmp_path: Path) -> None:
    output = tmp_path / "lab.vnb"
    code, document = check(
        "-o", output, "--report", tmp_path / "page.html", "--set", "link_rate=50 Mbit/s",
        "--require", "goodput >= 20 Mbit/s", "--require", "goodput >= 200 Mbit/s",
    )  # fmt: skip
    met, missed = (each["verdict"] for each in document["requirements"])
    # A busy machine may leave too few trials for an interval.
    assert met in ("met", "undecided") and missed in ("missed", "undecided")
    assert code == (exit_codes.REQUIREMENT_MISSED if missed == "missed" else exit_codes.REQUIREMENT_UNDECIDED)
    assert document["limits"][0]["cause"] == "link_full"
    assert document["audit"]["is_audited"] and not document["audit"]["not_audited"]
    names = {each["name"] for each in document["measurements"]}
    assert names >= {"goodput", "single_stream_goodput", "idle_latency", "packet_rate", "loss", "path_mtu"}
    assert "<html" in (tmp_path / "page.html").read_text(encoding="utf-8")
    for path in document["results_files"].values():
        file = ResultsFile.open_to_read(Path(path))
        try:
            assert any(each.trial_count for each in read_or_compute_summary(file).treatments)
        finally:
            file.close()
    code, text = bench.run("check", "--quick", "-o", output)
    assert code == exit_codes.BAD_INPUT
    assert "exists already" in text and "fix: " in text


def test_two_hosts_are_measured_over_ssh_and_nothing_stays_there(
    monkeypatch: pytest.MonkeyPatch, real_root: None
) -> None:
    before = leftover_folders()
    with create_hosts("web-01", "web-02") as network:
        for name, value in network.environment.items():
            monkeypatch.setenv(name, value)
        code, document = check("root@web-01", "root@web-02", "--yes", "--max-rate", "20 Mbit/s")
    assert code == 0
    assert document["is_complete"] and document["limits"]
    for each in document["measurements"]:
        if each["name"].endswith("goodput"):
            assert 0 < each["value"] < 30e6
    assert leftover_folders() <= before


def test_a_path_that_others_use_is_not_loaded_without_consent() -> None:
    code, text = bench.run("check", "root@web-01", stdin=subprocess.DEVNULL)
    assert code == exit_codes.BAD_INPUT
    assert "add --yes" in text


def test_an_iperf3_server_that_vanishes_leaves_the_finished_measurements(tmp_path: Path) -> None:
    output = tmp_path / "server.vnb"
    with iperf3_server() as (port, server):
        process = bench.start("check", f"iperf3://127.0.0.1:{port}", "--yes", "--quick", "-o", output)
        bench.wait_for_trials(output, 5)
        server.kill()
        text, _ = process.communicate(timeout=bench.PATIENCE_S)
    assert process.returncode == exit_codes.NOTHING_MEASURED, text
    assert "Measurements failed: " in text and "has no agent" not in text.split("Not measured")[0]
    assert len(bench.trials(output)) >= 5


def test_a_terminated_check_prints_what_it_measured_and_removes_its_folder() -> None:
    before = leftover_folders()
    process = bench.start("check")
    bench.wait_for_load()
    folder = next(iter(leftover_folders() - before))
    bench.wait_for_trials(folder / "check.vnb", 1)
    process.send_signal(signal.SIGTERM)
    text, _ = process.communicate(timeout=bench.PATIENCE_S)
    assert process.returncode == exit_codes.INTERRUPTED, text
    assert "The check was interrupted." in text
    assert leftover_folders() <= before


def test_lab_clean_removes_the_results_of_a_killed_check() -> None:
    before = leftover_folders()
    process = bench.start("check")
    bench.wait_for_load()
    made = leftover_folders() - before
    bench.kill(process)
    code, text = bench.run("lab", "clean")
    assert code == 0, text
    assert made and not made & leftover_folders()
