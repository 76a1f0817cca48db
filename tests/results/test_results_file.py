"""The results file: no trial is lost or duplicated, and unusable files get clear errors."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests import fixtures
from tests.results.old_files import convert_to_schema_4
from vnetbench.errors import BenchError
from vnetbench.results.connection import SCHEMA_VERSION
from vnetbench.results.file import ResultsFile
from vnetbench.results.records import FINISHED, INTERRUPTED, RUNNING, SEARCH_STEP, Observation, StepRecord


def test_a_trial_is_read_back_unchanged(tmp_path: Path) -> None:
    file, _ = fixtures.create_results_file(tmp_path / "r.vnb")
    written = fixtures.make_trial(2, 0)
    file.add_trial(written, 3.5)
    file.close("interrupted")
    read = ResultsFile.open_to_read(tmp_path / "r.vnb")
    (trial,) = read.trials()
    assert trial.endpoints == written.endpoints
    assert (trial.treatment, trial.block, trial.effective) == (2, 0, {"mtu": 1500})
    assert read.campaign().elapsed_s == 3.5
    assert read.campaign().status == "interrupted"


def test_the_schema_accepts_only_known_campaign_statuses(tmp_path: Path) -> None:
    fixtures.create_results_file(tmp_path / "r.vnb")[0].close(FINISHED)
    with closing(sqlite3.connect(tmp_path / "r.vnb", isolation_level=None)) as db:
        for status in (RUNNING, FINISHED, INTERRUPTED):
            db.execute("UPDATE campaign SET status = ?", (status,))
        with pytest.raises(sqlite3.IntegrityError):
            db.execute("UPDATE campaign SET status = 'over'")


def test_histograms_are_read_back_unchanged(tmp_path: Path) -> None:
    file, _ = fixtures.create_results_file(tmp_path / "r.vnb")
    written = fixtures.make_trial()
    source, *others = written.endpoints
    first, *later = source.samples
    timed = replace(first, histograms={"latency": ((1000, 3), (2000, 1)), "connect": ()})
    file.add_trial(replace(written, endpoints=(replace(source, samples=(timed, *later)), *others)), 1)
    (trial,) = file.trials()
    assert trial.endpoints[0].samples == (timed, *later)


def test_the_running_time_of_a_campaign_counts_each_session_once(tmp_path: Path) -> None:
    path = tmp_path / "r.vnb"
    file, _ = fixtures.create_results_file(path)
    elapsed_s = 0.0
    for block in range(4):
        elapsed_s += 2.0
        file.add_trial(fixtures.make_trial(0, block), elapsed_s - 1)
        file.add_trial(fixtures.make_trial(1, block), elapsed_s)
        file.close("interrupted")
        file = ResultsFile.open_to_write(path)
        assert file.campaign().elapsed_s == elapsed_s
    file.close("finished")


def test_steps_are_readable_before_and_after_their_trial_is_stored(tmp_path: Path) -> None:
    path = tmp_path / "r.vnb"
    file, _ = fixtures.create_results_file(path)
    steps = tuple(
        StepRecord(
            n, SEARCH_STEP, 1000.0 * n or None, None, 1.0, n, 1.2, 10 * n, 9 * n, {"direction_count": 1}
        )
        for n in range(4)
    )
    for step in steps:
        file.add_step(2, 0, step, 5.0)
    file.add_step(1, 0, steps[0], 6.0)
    file.close("interrupted")
    again = ResultsFile.open_to_write(path)
    assert (again.steps(2, 0), again.steps(2, 1)) == (steps, ())
    assert again.campaign().elapsed_s == 6.0
    again.add_trial(fixtures.make_trial(2, 0), 7.0)
    assert [trial.steps for trial in again.trials()] == [steps]
    other = replace(steps[1], load_fps=5.0)
    again.add_step(2, 0, other, 8.0)
    assert again.steps(2, 0) == (steps[0], other)
    again.close("interrupted")


def test_an_observers_data_are_read_back_unchanged(tmp_path: Path) -> None:
    file, _ = fixtures.create_results_file(tmp_path / "r.vnb")
    written = fixtures.make_trial()
    *ends, host = written.endpoints
    queued = {"kind": "tbf", "drops": 3, "overlimits": 9, "backlog_bytes": 3028}
    ports = {"up0": {"rx_packets": 7, "tx_packets": 7, "rx_dropped": 0, "tx_dropped": 3, "qdisc": queued}}
    first, second, *later = host.samples
    with_exits = replace(
        first, observation=Observation({"a1 vcpu0": 0.05}, ports, {"exits": 9}, {"a1 vcpu0": 0.01})
    )
    without = replace(second, observation=Observation({"a1 vcpu0": 0.04}, ports, None))
    observed = replace(host, samples=(with_exits, without, *later))
    file.add_trial(replace(written, endpoints=(*ends, observed)), 1)
    (trial,) = file.trials()
    assert trial.endpoints[2] == observed


def test_an_observation_without_stored_wait_times_has_none(tmp_path: Path) -> None:
    path = tmp_path / "r.vnb"
    file, _ = fixtures.create_results_file(path)
    written = fixtures.make_trial()
    *ends, host = written.endpoints
    observation = Observation({"a1 vcpu0": 0.05}, {}, None, {"a1 vcpu0": 0.01})
    observed = replace(host, samples=(replace(host.samples[0], observation=observation),))
    file.add_trial(replace(written, endpoints=(*ends, observed)), 1)
    file.close("finished")
    convert_to_schema_4(path)
    db = sqlite3.connect(path)
    db.executescript("UPDATE sample SET counters = json_remove(counters, '$.observation.thread_wait_s');")
    db.close()
    (trial,) = ResultsFile.open_to_read(path).trials()
    assert trial.endpoints[2].samples[0].observation == replace(observation, thread_wait_s={})


def test_the_parts_of_a_mixed_load_are_read_back_unchanged(tmp_path: Path) -> None:
    file, _ = fixtures.create_results_file(tmp_path / "r.vnb")
    written = fixtures.make_mixed_trial()
    file.add_trial(written, 1)
    (trial,) = file.trials()
    assert (trial.idle_s, trial.endpoints) == (0.5, written.endpoints)


def test_a_block_holds_one_finished_trial_per_treatment(tmp_path: Path) -> None:
    file, _ = fixtures.create_results_file(tmp_path / "r.vnb")
    file.add_trial(fixtures.make_trial(0, 0, failure="the agent died"), 1)
    file.add_trial(fixtures.make_trial(0, 0), 2)
    with pytest.raises(BenchError):
        file.add_trial(fixtures.make_trial(0, 0), 3)
    assert [t.state for t in file.trials()] == ["failed", "done"]


def test_an_existing_file_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "r.vnb"
    path.write_text("precious")
    with pytest.raises(BenchError, match="this file exists") as refused:
        fixtures.create_results_file(path)
    assert f"vnetbench resume {path}" in str(refused.value)
    assert path.read_text() == "precious"


def test_a_missing_folder_is_reported_with_the_command_that_creates_it(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="mkdir -p"):
        fixtures.create_results_file(tmp_path / "no" / "r.vnb")


def test_only_one_bench_writes_to_a_file(tmp_path: Path) -> None:
    path = tmp_path / "r.vnb"
    file, _ = fixtures.create_results_file(path)
    file.close("interrupted")
    other = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, time; from pathlib import Path; from vnetbench.results.file import ResultsFile;"
            f"f = ResultsFile.open_to_write(Path({str(path)!r})); print('open', flush=True); time.sleep(60)",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        with pytest.raises(BenchError, match=f"process {other.pid}"):
            ResultsFile.open_to_write(path)
        ResultsFile.open_to_read(path).close()
    finally:
        other.kill()
        other.wait()
    # The dead writer's mark does not keep the file closed.
    ResultsFile.open_to_write(path).close("interrupted")


def test_only_one_of_several_concurrent_benches_becomes_the_writer(tmp_path: Path) -> None:
    path = tmp_path / "r.vnb"
    file, _ = fixtures.create_results_file(path)
    file.close("interrupted")
    program = (
        "import sys, time; from pathlib import Path; from vnetbench.errors import BenchError\n"
        "from vnetbench.results.file import ResultsFile\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        f"try: f = ResultsFile.open_to_write(Path({str(path)!r})); print('open', flush=True)\n"
        "except BenchError: print('refused', flush=True)\n"
        "sys.stdin.readline()\n"
    )
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(6)
    ]
    for word in ("ready", None):
        replies = []
        for writer in writers:
            assert writer.stdout is not None
            replies.append(writer.stdout.readline().strip())
        assert sorted(replies) == (["ready"] * 6 if word else ["open", *["refused"] * 5])
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write("\n")
            writer.stdin.flush()
    for writer in writers:
        writer.communicate()


def test_a_truncated_file_is_reported_as_damaged(tmp_path: Path) -> None:
    path = tmp_path / "r.vnb"
    file, _ = fixtures.create_results_file(path)
    for block in range(5):
        file.add_trial(fixtures.make_trial(0, block), block)
    file.close("interrupted")
    whole = path.read_bytes()
    messages = set()
    for share in (0.0, 0.01, 0.2, 0.5, 0.9, 0.999):
        path.write_bytes(whole[: int(len(whole) * share)])
        with pytest.raises(BenchError) as refused:
            for _ in ResultsFile.open_to_read(path).trials():
                pass
        assert refused.value.fix
        messages.add(refused.value.what.split("(")[0])
    assert "the file is damaged or truncated " in messages


@pytest.mark.parametrize("content", [b"hello\n", b"\x1f\x8b\x08\x08", b'title = "a study"\n' * 99])
def test_a_file_of_another_type_is_not_reported_as_damaged(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "r.vnb"
    path.write_bytes(content)
    with pytest.raises(BenchError, match="this is not a results file of vnetbench") as refused:
        ResultsFile.open_to_read(path)
    assert refused.value.fix and ".recover" not in refused.value.fix


def test_a_file_with_damaged_pages_is_reported_as_damaged(tmp_path: Path) -> None:
    path = tmp_path / "r.vnb"
    file, _ = fixtures.create_results_file(path)
    for block in range(5):
        file.add_trial(fixtures.make_trial(0, block), block)
    file.close("interrupted")
    content = bytearray(path.read_bytes())
    content[4096 * 2 : 4096 * 9] = b"\xa5" * (4096 * 7)
    path.write_bytes(content)
    with pytest.raises(BenchError, match="damaged"):
        ResultsFile.open_to_read(path)


def test_a_file_of_a_newer_schema_is_refused_with_its_version(tmp_path: Path) -> None:
    path = tmp_path / "r.vnb"
    file, _ = fixtures.create_results_file(path)
    file.close("interrupted")
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    with pytest.raises(BenchError, match="newer vnetbench"):
        ResultsFile.open_to_read(path)


def test_other_databases_and_missing_files_have_their_own_errors(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("hello " * 500)
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE t (x)")
    for path in (text, other, tmp_path / "missing.vnb", tmp_path):
        with pytest.raises(BenchError) as refused:
            ResultsFile.open_to_read(path)
        assert refused.value.fix, path


def test_a_writer_killed_at_any_time_leaves_only_complete_trials(tmp_path: Path) -> None:
    path = tmp_path / "r.vnb"
    file, _ = fixtures.create_results_file(path)
    file.close("interrupted")
    program = (
        "from pathlib import Path; from tests import fixtures\n"
        "from vnetbench.results.file import ResultsFile\n"
        f"f = ResultsFile.open_to_write(Path({str(path)!r}))\n"
        "b = 1 + max((t.block for t in f.trials()), default=-1)\n"
        "while True:\n"
        "    f.add_trial(fixtures.make_trial(0, b), b); print(b, flush=True); b += 1\n"
    )
    announced = -1
    for attempt in range(6):
        writer = subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
        )
        assert writer.stdout is not None
        for _ in range(attempt + 1):
            announced = int(writer.stdout.readline())
        time.sleep(0.003 * attempt)
        writer.send_signal(signal.SIGKILL)
        announced = max([announced, *(int(line) for line in writer.stdout.read().split())])
        writer.wait()
        blocks = [t.block for t in ResultsFile.open_to_read(path).trials()]
        assert blocks == list(range(len(blocks)))
        assert len(blocks) >= announced + 1
        assert all(len(t.endpoints[0].samples) == 20 for t in ResultsFile.open_to_read(path).trials())


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small filesystem needs root")
def test_a_full_disk_is_reported_and_loses_no_trial(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(small)], check=True)
    try:
        path = small / "r.vnb"
        file, _ = fixtures.create_results_file(path)
        written = 0
        with pytest.raises(BenchError, match="disk is full") as full:
            for block in range(1000):
                file.add_trial(fixtures.make_trial(0, block), block)
                written += 1
        assert f"vnetbench resume {path}" in str(full.value)
        assert written > 0
        subprocess.run(["mount", "-o", "remount,size=2m", "tmpfs", str(small)], check=True)
        file.close("interrupted")
        again = ResultsFile.open_to_write(path)
        again.add_trial(fixtures.make_trial(0, written), written)
        assert [t.block for t in again.trials()] == list(range(written + 1))
        again.close("interrupted")
    finally:
        subprocess.run(["umount", str(small)], check=True)
