"""Results files that an attacker crafted, for tests of the checks at opening."""

from __future__ import annotations

import sqlite3
import struct
from contextlib import closing
from pathlib import Path

from tests import fixtures
from vnetbench.results.records import FINISHED

JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
"""Starts a rollback journal, and ends one that names a super-journal (fileformat2.html, 3)."""
SUPER_JOURNAL_PAGE = 0x40000000 // 16384 + 1
"""Page number in the record of a super-journal: the page with SQLite's lock bytes."""


def create_results_file(path: Path, trial_count: int = 1) -> Path:
    file, _ = fixtures.create_results_file(path)
    for block in range(trial_count):
        file.add_trial(fixtures.make_trial(0, block), float(block))
    file.close(FINISHED)
    return path


def execute(path: Path, script: str) -> None:
    """Run statements on a closed file."""
    with closing(sqlite3.connect(path)) as db:
        db.executescript(script)


def write_journal_naming(path: Path, other: Path) -> Path:
    """Write a hot journal of `path` whose super-journal is `other`, which SQLite removes after a rollback."""
    pages = path.stat().st_size // 16384
    header = JOURNAL_MAGIC + struct.pack(">IIIII", 0, 0, max(1, pages), 512, 16384)
    name = str(other).encode()
    record = struct.pack(">I", SUPER_JOURNAL_PAGE) + name + struct.pack(">II", len(name), sum(name))
    journal = path.with_name(f"{path.name}-journal")
    journal.write_bytes(header.ljust(512, b"\0") + record + JOURNAL_MAGIC)
    # SQLite removes a super-journal with contents, unless a journal that it lists still names it.
    other.write_bytes(b"precious")
    return journal


def write_journal_restoring(path: Path, page_count: int, page_size: int) -> Path:
    """Write a hot journal of `path` with its first page, which restores a file of `page_count` pages."""
    page = path.read_bytes()[: page_size or 1024]
    checksum = sum(page[at] for at in range(len(page) - 200, 0, -200))
    header = JOURNAL_MAGIC + struct.pack(">IIIII", 1, 0, page_count, 512, page_size)
    journal = path.with_name(f"{path.name}-journal")
    journal.write_bytes(header.ljust(512, b"\0") + struct.pack(">I", 1) + page + struct.pack(">I", checksum))
    return journal
