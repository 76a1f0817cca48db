"""Opening a crafted results file changes nothing else, ends soon, and gives an error with a fix."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.results.crafted_files import (
    create_results_file,
    execute,
    write_journal_naming,
    write_journal_restoring,
)
from vnetbench.commands.summaries import read_summary_with_experiments
from vnetbench.errors import BenchError
from vnetbench.results.file import ResultsFile


def open_to_read(path: Path) -> None:
    with closing(ResultsFile.open_to_read(path)) as file:
        assert file.campaign() and file.treatments() and list(file.trials())


def open_to_write(path: Path) -> None:
    ResultsFile.open_to_write(path).close()


OPENINGS = (open_to_read, open_to_write)


def snapshot(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("open_file", OPENINGS)
@pytest.mark.parametrize("content", ["results file", "other database"])
def test_a_journal_that_names_another_file_deletes_nothing(
    tmp_path: Path, open_file: Callable[[Path], None], content: str
) -> None:
    path = tmp_path / "r.vnb"
    if content == "results file":
        create_results_file(path)
    else:
        execute(path, "PRAGMA page_size = 16384; CREATE TABLE t (x); INSERT INTO t VALUES (1)")
    other = tmp_path / "precious"
    write_journal_naming(path, other)
    before = snapshot(tmp_path)
    with pytest.raises(BenchError) as refused:
        open_file(path)
    assert snapshot(tmp_path) == before and other.exists()
    assert refused.value.fix
    if content == "results file":
        assert "names another file" in refused.value.what


@pytest.mark.parametrize("open_file", OPENINGS)
@pytest.mark.parametrize("page_size", [0, 1024])
def test_a_journal_that_enlarges_the_file_is_refused(
    tmp_path: Path, open_file: Callable[[Path], None], page_size: int
) -> None:
    path = create_results_file(tmp_path / "r.vnb")
    write_journal_restoring(path, page_count=1 << 20, page_size=page_size)
    before = snapshot(tmp_path)
    with pytest.raises(BenchError, match="the journal would give the file a size") as refused:
        open_file(path)
    assert refused.value.fix and snapshot(tmp_path) == before


@pytest.mark.parametrize("open_file", OPENINGS)
def test_a_journal_that_restores_a_write_ahead_log_is_refused(
    tmp_path: Path, open_file: Callable[[Path], None]
) -> None:
    path = create_results_file(tmp_path / "r.vnb")
    journal = write_journal_restoring(path, page_count=path.stat().st_size // 1024, page_size=1024)
    records = bytearray(journal.read_bytes())
    records[512 + 4 + 18 : 512 + 4 + 20] = b"\2\2"  # no byte that the checksum covers
    journal.write_bytes(records)
    with pytest.raises(BenchError, match="write-ahead log"):
        open_file(path)
    assert set(snapshot(tmp_path)) == {"r.vnb"}


def test_a_journal_that_restores_the_size_is_rolled_back(tmp_path: Path) -> None:
    path = create_results_file(tmp_path / "r.vnb")
    journal = write_journal_restoring(path, page_count=path.stat().st_size // 1024, page_size=1024)
    open_to_read(path)
    assert not journal.exists()


def test_a_journal_beside_the_target_of_a_link_is_checked_too(tmp_path: Path) -> None:
    folder = tmp_path / "there"
    folder.mkdir()
    path = create_results_file(folder / "r.vnb")
    write_journal_naming(path, other := tmp_path / "precious")
    link = tmp_path / "link.vnb"
    link.symlink_to(path)
    with pytest.raises(BenchError, match="names another file"):
        open_to_read(link)
    assert other.exists()


def test_a_journal_of_a_proof_file_that_names_another_file_deletes_nothing(tmp_path: Path) -> None:
    path = create_results_file(tmp_path / "r.vnb")
    other = tmp_path / "precious"
    write_journal_naming(create_results_file(tmp_path / "r.proof.vnb"), other)
    assert "names another file" in read_summary_with_experiments(path).proof_file_note
    assert other.exists()


@pytest.mark.parametrize("open_file", OPENINGS)
@pytest.mark.parametrize("suffix", ["-journal", "-wal"])
def test_a_journal_that_is_no_file_of_sqlite_is_refused(
    tmp_path: Path, open_file: Callable[[Path], None], suffix: str
) -> None:
    path = create_results_file(tmp_path / "r.vnb")
    os.mkfifo(tmp_path / f"r.vnb{suffix}")  # reading it would wait for ever
    with pytest.raises(BenchError) as refused:
        open_file(path)
    assert f"r.vnb{suffix}" in str(refused.value) and refused.value.fix


def test_a_journal_that_is_a_link_is_refused(tmp_path: Path) -> None:
    path = create_results_file(tmp_path / "r.vnb")
    (tmp_path / "other").write_bytes(b"precious")
    (tmp_path / "r.vnb-journal").symlink_to(tmp_path / "other")
    with pytest.raises(BenchError, match=r"r\.vnb-journal"):
        open_to_read(path)
    assert (tmp_path / "other").read_bytes() == b"precious"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_journal_of_another_user_is_refused(tmp_path: Path) -> None:
    path = create_results_file(tmp_path / "r.vnb")
    journal = tmp_path / "r.vnb-journal"
    journal.write_bytes(b"\0" * 512)
    os.chown(journal, 12345, 12345)
    with pytest.raises(BenchError, match="another user"):
        open_to_read(path)


@pytest.mark.parametrize("open_file", OPENINGS)
def test_a_pipe_is_refused(tmp_path: Path, open_file: Callable[[Path], None]) -> None:
    os.mkfifo(tmp_path / "r.vnb")
    with pytest.raises(BenchError, match="not a regular file"):
        open_file(tmp_path / "r.vnb")


@pytest.mark.parametrize("open_file", OPENINGS)
def test_a_write_ahead_log_is_refused(tmp_path: Path, open_file: Callable[[Path], None]) -> None:
    path = create_results_file(tmp_path / "r.vnb")
    execute(path, "PRAGMA journal_mode = WAL")
    before = snapshot(tmp_path)
    with pytest.raises(BenchError, match="write-ahead log") as refused:
        open_file(path)
    assert "journal_mode" in str(refused.value.fix) and snapshot(tmp_path) == before


ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT"
CRAFTED_SCHEMAS = {
    "a view in place of a table": f"""
        PRAGMA foreign_keys = OFF; ALTER TABLE treatment RENAME TO original;
        CREATE VIEW treatment AS {ENDLESS} x AS id, '{{}}' AS factors, 'open' AS state, '' AS reason FROM n
    """,
    "another view": f"CREATE VIEW fun AS {ENDLESS} x FROM n",
    "views of views, whose resolution takes years": "CREATE VIEW v0 AS SELECT 1 AS x;"
    + "".join(f"CREATE VIEW v{i + 1} AS SELECT a.x FROM v{i} a, v{i} b;" for i in range(50)),
    "a virtual table that claims to be data": """
        PRAGMA writable_schema = ON;
        INSERT INTO sqlite_schema VALUES ('table', 'f', 'f', 3, 'CREATE/**/VIRTUAL TABLE f USING fts5(x)')
    """,
    "a long statement, which SQLite parses in quadratic time": f"""
        CREATE TABLE more (a TEXT CHECK (a <> '{"x" * 100_000}')) STRICT
    """,
    "a trigger": """
        CREATE TRIGGER t AFTER INSERT ON session BEGIN DELETE FROM trial; END
    """,
    "a virtual table": "CREATE VIRTUAL TABLE f USING fts5(x)",
    "a generated column": "ALTER TABLE trial ADD COLUMN more TEXT AS (printf('%9d', id)) VIRTUAL",
    "a missing table": "DROP TABLE endpoint_data",
    "a missing column": "ALTER TABLE trial DROP COLUMN notes",
    "a column of another type": """
        ALTER TABLE trial DROP COLUMN setup_s; ALTER TABLE trial ADD COLUMN setup_s TEXT NOT NULL DEFAULT 'x'
    """,
    "a table that is not strict": """
        DROP TABLE testbed; CREATE TABLE testbed (shape TEXT PRIMARY KEY, description TEXT NOT NULL)
    """,
}


@pytest.mark.parametrize("open_file", OPENINGS)
@pytest.mark.parametrize("name", CRAFTED_SCHEMAS)
def test_a_crafted_schema_is_refused(tmp_path: Path, open_file: Callable[[Path], None], name: str) -> None:
    path = create_results_file(tmp_path / "r.vnb")
    execute(path, CRAFTED_SCHEMAS[name])
    before = path.read_bytes()
    with pytest.raises(BenchError) as refused:
        open_file(path)
    assert refused.value.fix and path.read_bytes() == before


def test_a_column_that_a_later_version_added_is_no_problem(tmp_path: Path) -> None:
    path = create_results_file(tmp_path / "r.vnb")
    execute(path, "ALTER TABLE trial ADD COLUMN weather TEXT; CREATE TABLE notes (text TEXT) STRICT")
    open_to_read(path)
    open_to_write(path)


def test_a_schema_that_is_not_utf_8_is_an_error(tmp_path: Path) -> None:
    path = create_results_file(tmp_path / "r.vnb")
    valid, invalid = b"CREATE TABLE endpoint_data (", b"CREATE TABLE endpoint_\xf2ata ("
    path.write_bytes(path.read_bytes().replace(valid, invalid))
    with pytest.raises(BenchError) as refused:
        open_to_read(path)
    assert refused.value.fix
