"""One bench writes to a results file, also across PID namespaces; a failed creation leaves nothing behind."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests import fixtures
from tests.results.crafted_files import create_results_file, execute
from tests.results.old_files import SCHEMA_2_FILES, unpack_recorded_file
from vnetbench.errors import BenchError
from vnetbench.results import file as file_module
from vnetbench.results.connection import connect
from vnetbench.results.file import ResultsFile
from vnetbench.results.records import FINISHED, INTERRUPTED, RUNNING

OWN_PID_NAMESPACE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
SYNCHRONOUS_EXTRA = 3


@contextmanager
def running_writer(path: Path, wrapper: tuple[str, ...] = ()) -> Iterator[None]:
    """Hold the file open to write in another process."""
    program = (
        "import sys; from pathlib import Path; from vnetbench.results.file import ResultsFile\n"
        f"f = ResultsFile.open_to_write(Path({str(path)!r})); print('open', flush=True); sys.stdin.readline()"
    )
    writer = subprocess.Popen(
        [*wrapper, sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert writer.stdout is not None and writer.stdout.readline() == "open\n"
        yield
    finally:
        writer.kill()
        writer.communicate()


def test_a_bench_in_another_pid_namespace_keeps_the_file_closed(tmp_path: Path) -> None:
    path = create_results_file(tmp_path / "r.vnb")
    with running_writer(path, OWN_PID_NAMESPACE):
        with pytest.raises(BenchError, match="a campaign is running on this file"):
            ResultsFile.open_to_write(path)
        with closing(ResultsFile.open_to_read(path)) as file:
            assert len(list(file.trials())) == 1
            assert file.campaign().status == RUNNING
    with closing(ResultsFile.open_to_read(path)) as file:
        assert file.campaign().status == INTERRUPTED
    ResultsFile.open_to_write(path).close(FINISHED)


def test_an_older_file_that_another_bench_writes_to_is_readable(tmp_path: Path) -> None:
    path = unpack_recorded_file(SCHEMA_2_FILES[0], tmp_path)
    with running_writer(path, OWN_PID_NAMESPACE), closing(ResultsFile.open_to_read(path)) as file:
        assert list(file.trials())


def test_reading_does_not_release_the_writers_lock(tmp_path: Path) -> None:
    path = create_results_file(tmp_path / "r.vnb")
    with closing(ResultsFile.open_to_write(path)) as writer:
        ResultsFile.open_to_read(path).close()
        with pytest.raises(BenchError, match="a campaign is running on this file"):
            ResultsFile.open_to_write(path)
        writer.add_trial(fixtures.make_trial(1, 0), 1.0)


def test_a_new_file_is_locked_from_its_creation_on(tmp_path: Path) -> None:
    path = tmp_path / "r.vnb"
    file, _ = fixtures.create_results_file(path)
    execute(path, "UPDATE campaign SET writer = NULL")  # only the lock keeps others out
    with pytest.raises(BenchError, match="a campaign is running on this file"):
        ResultsFile.open_to_write(path)
    file.close(INTERRUPTED)
    ResultsFile.open_to_write(path).close()


def test_a_creation_that_fails_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.vnb"
    with monkeypatch.context() as patch, pytest.raises(BenchError):
        patch.setattr(file_module, "SCHEMA_VERSION", "no number; CREATE nothing")
        fixtures.create_results_file(path)
    assert list(tmp_path.iterdir()) == []
    fixtures.create_results_file(path)[0].close(FINISHED)


def test_a_file_that_appears_during_the_creation_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = create_results_file(tmp_path / "r.vnb")
    before = path.read_bytes()
    monkeypatch.setattr(file_module, "check_output_path", lambda path: None)
    with pytest.raises(BenchError, match="this file exists"):
        fixtures.create_results_file(path)
    assert path.read_bytes() == before


def test_a_dangling_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "r.vnb").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BenchError):
        fixtures.create_results_file(tmp_path / "r.vnb")
    assert not (tmp_path / "elsewhere").exists()


def test_the_version_of_the_newest_session_is_that_of_the_campaign(tmp_path: Path) -> None:
    path = create_results_file(tmp_path / "r.vnb")
    execute(
        path,
        "UPDATE session SET vnetbench_version = '0.9';"
        "INSERT INTO session (vnetbench_version, started_at) VALUES ('0.10', '2026-01-01')",
    )
    with closing(ResultsFile.open_to_read(path)) as file:
        assert file.campaign().vnetbench_version == "0.10"


def test_a_commit_syncs_the_folder_after_it_removed_the_journal(tmp_path: Path) -> None:
    path = create_results_file(tmp_path / "r.vnb")
    with closing(connect(path, "rw")) as db:
        assert db.execute("PRAGMA synchronous").fetchone() == (SYNCHRONOUS_EXTRA,)


def test_a_private_copy_of_a_crafted_older_file_is_checked(tmp_path: Path) -> None:
    path = unpack_recorded_file(SCHEMA_2_FILES[0], tmp_path)
    execute(path, "ALTER TABLE trial DROP COLUMN notes")
    for open_file in (ResultsFile.open_to_read, ResultsFile.open_to_write):
        with pytest.raises(BenchError) as refused:
            open_file(path)
        assert refused.value.fix
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (2,)


def test_only_the_session_keeps_a_descriptor_open(tmp_path: Path) -> None:
    path = create_results_file(tmp_path / "r.vnb")
    before = set(Path("/proc/self/fd").iterdir())
    for open_file in (ResultsFile.open_to_read, ResultsFile.open_to_write):
        open_file(path).close()
    assert set(Path("/proc/self/fd").iterdir()) == before
