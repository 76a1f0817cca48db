"""Import bytes that anyone may have written, and fail unless they are imported or refused with our error."""

from __future__ import annotations

from pathlib import Path

from hypothesis import strategies as st

from tests.fuzz.limits import limit_cpu_time
from tests.importers.hostile_log_process import MAPPING
from tests.importers.test_mutations import check_run, limited_memory
from vnetbench.errors import BenchError
from vnetbench.importers.archives import LogSource, UnreadableFile, find_logs
from vnetbench.importers.decoding import decode_lines
from vnetbench.importers.log_parser import parse_log
from vnetbench.importers.run_store import RunStore
from vnetbench.importers.table import is_table_file_name, read_table_mapping, read_table_runs
from vnetbench.importers.unpack_budget import UnpackBudget

CORPUS = Path(__file__).parent / "corpus"
"""Inputs that once were read wrongly, one folder for each target. The tests try each of them first."""
MAX_EDITS = 6

_Edit = tuple[int, int, bytes]
_HOSTILE_BYTES = (
    b"\0", b"\xff" * 4, b"\xff" * 8, b"\x80" + b"\0" * 11, b"\n", b"\r", b'"', b"\\", b"{", b"}", b"[", b"]",
    b"<", b">", b",", b"77777777777\0", b"PK\3\4", b"\x1f\x8b", b"9" * 30, b"nan", b"1e999", b"\xff\xfe",
)  # fmt: skip


def edits() -> st.SearchStrategy[list[_Edit]]:
    """Return places in a file, how many bytes go there, and what comes instead."""
    inserted = st.one_of(st.sampled_from(_HOSTILE_BYTES), st.binary(max_size=4))
    return st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 4), inserted), max_size=MAX_EDITS)


def apply_edits(content: bytes, changes: list[_Edit]) -> bytes:
    """Return the content with the edits."""
    changed = bytearray(content)
    for place, removed, inserted in changes:
        start = place % (len(changed) + 1)
        changed[start : start + removed] = inserted
    return bytes(changed)


def corpus_files(target: str) -> list[Path]:
    """Return the kept inputs of a target."""
    return sorted((CORPUS / target).iterdir())


def check_import(path: Path) -> None:
    """Read a file as the command does, within limits of memory and CPU time.

    Fails on any error but ours, and on a run that could not be in a results file.
    """
    with limited_memory(), limit_cpu_time():
        try:
            _import_file(path)
        except BenchError as error:
            assert error.what


def _import_file(path: Path) -> None:
    store = RunStore()
    try:
        for log in find_logs([path], UnpackBudget(remaining_bytes=2**26, remaining_lines=10**6)):
            if isinstance(log, UnreadableFile):
                assert log.reason
                continue
            store.start_log(log.display_path)
            _read_log(log, store)
            store.finish_log_or_drop_duplicate(log.content_digest)
        for workload in store.count_runs_by_workload():
            for summary in store.run_summaries(workload):
                check_run(store.load_log_name_and_run(summary.run_id)[1])
    finally:
        store.close()


def _read_log(log: LogSource, store: RunStore) -> None:
    if is_table_file_name(log.display_path):
        mapping = read_table_mapping(MAPPING, "mapping.toml")
        for run in read_table_runs(log.stream, log.display_path, mapping):
            store.add_item(log.display_path, run)
        return
    for item in parse_log(decode_lines(log.stream)):
        store.add_item(log.display_path, item)
