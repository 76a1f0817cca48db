"""Journal of what the red team changed outside its namespaces, so that a killed run can be undone."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

FOLDER = Path("/var/tmp/vnetbench-redteam")


@contextmanager
def changed_file(path: Path, value: str) -> Iterator[None]:
    """Write a value to a file of /proc or /sys, and put the old value back at the end.

    The old value goes to the journal first, so that `clean` can restore it if this process is killed.
    """
    before = path.read_text().strip()
    FOLDER.mkdir(parents=True, exist_ok=True)
    entry = FOLDER / f"{os.getpid()}-{path.name}.json"
    if entry.exists():
        raise FileExistsError(f"{path} is changed already: {entry}")
    entry.write_text(json.dumps({"path": str(path), "value": before, "pid": os.getpid()}))
    try:
        path.write_text(value)
        yield
    finally:
        path.write_text(before)
        entry.unlink()


def restore_leftovers() -> list[str]:
    """Restore files whose process has ended. Returns a line for each of them."""
    lines = []
    for entry in sorted(FOLDER.glob("*.json")) if FOLDER.exists() else ():
        record = json.loads(entry.read_text())
        if Path(f"/proc/{record['pid']}").exists():
            continue
        with suppress(FileNotFoundError):
            Path(record["path"]).write_text(record["value"])
        entry.unlink()
        lines.append(f"{record['path']} = {record['value']}")
    return lines
