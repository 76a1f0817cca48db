"""Migration of results files from earlier schema versions to the current one."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from vnetbench.results.connection import SCHEMA_VERSION
from vnetbench.results.schema_changes.version_3 import change_to_version_3
from vnetbench.results.schema_changes.version_4 import change_to_version_4
from vnetbench.results.schema_changes.version_5 import change_to_version_5
from vnetbench.results.schema_checks import check_tables

_MIGRATION_BY_VERSION = {3: change_to_version_3, 4: change_to_version_4, 5: change_to_version_5}
"""The change to each version from the versions below it, in order."""


def migrate(path: Path, db: sqlite3.Connection) -> None:
    """Migrate an open results file to the current schema, inside the caller's transaction.

    Raises:
        BenchError: The result lacks a table or column of the current schema.
    """
    (version,) = db.execute("PRAGMA user_version").fetchone()
    for new_version, change in _MIGRATION_BY_VERSION.items():
        if version < new_version:
            change(db)
    db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    check_tables(path, db)


def migrate_into_temporary_copy(path: Path, db: sqlite3.Connection) -> sqlite3.Connection:
    """Return a migrated private copy of an open results file, and close the original.

    The copy is a temporary database of SQLite, which is kept on disk and removed when it is closed.
    Raises BenchError if the copy is not as a file of the current version is.
    """
    copy = sqlite3.connect("", check_same_thread=False)
    try:
        db.backup(copy)
        with copy:
            copy.execute("BEGIN")
            migrate(path, copy)
    except BaseException:
        copy.close()
        raise
    finally:
        db.close()
    return copy
