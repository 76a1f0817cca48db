"""Read a log or a table as the command does, with limits: `python -m … FILE MIB SECONDS`."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.importers.archive_process import limit_process
from vnetbench.errors import BenchError
from vnetbench.importers.decoding import decode_lines
from vnetbench.importers.log_parser import parse_log
from vnetbench.importers.run_store import RunStore
from vnetbench.importers.table import read_table_mapping, read_table_runs

MAPPING = """
workload = "tcp_stream"
[factor]
streams = "streams"
[metric]
goodput_bps = { column = "rate", unit = "Mbit/s" }
"""


def read_log(path: Path) -> int:
    """Return the number of items in a log or table."""
    store, count = RunStore(), 0
    with path.open("rb") as stream:
        if path.suffix in (".xlsx", ".csv"):
            mapping = read_table_mapping(MAPPING, "mapping.toml")
            return sum(1 for _ in read_table_runs(stream, path.name, mapping))
        store.start_log(path.name)
        for item in parse_log(decode_lines(stream)):
            store.add_item(path.name, item)
            count += 1
        store.finish_log_or_drop_duplicate(b"")
    return count


if __name__ == "__main__":
    import openpyxl  # noqa: F401  its memory is not that of the table

    limit_process(int(sys.argv[2]), int(sys.argv[3]))
    try:
        print("read", read_log(Path(sys.argv[1])))
    except BenchError as error:
        print("refused", error)
