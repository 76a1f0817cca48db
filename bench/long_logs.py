"""Make long logs from the short ones of the tests.

`python -m bench.long_logs` imports one and reports the peak memory.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from vnetbench.study.workloads import TCP_STREAM

_LOGS = Path(__file__).parents[1] / "tests" / "data" / "logs" / "iperf3"
TEXT_LOG = _LOGS / "parallel-omit-verbose-3.12.log"
JSON_LOG = _LOGS / "json-two-3.12.log"
_MIB = 2**20


def write_text(path: Path, size: int) -> None:
    """Write a file of at least `size` bytes that repeats a run of iperf3."""
    run = TEXT_LOG.read_bytes() + b"\n"
    with path.open("wb") as file:
        for _ in range(-(-size // len(run))):
            file.write(run)


def write_document(path: Path, size: int) -> None:
    """Write a JSON document of one long iperf3 run, of about `size` bytes."""
    text = JSON_LOG.read_text()
    document, _ = json.JSONDecoder().raw_decode(text, text.index("{"))
    intervals = document["intervals"]
    copies = size // len(json.dumps(intervals, indent="\t"))
    document["intervals"] = [
        interval for number in range(copies) for interval in _shift_intervals(intervals, number)
    ]
    path.write_text(json.dumps(document, indent="\t") + "\n")


def import_text(path: Path, folder: Path) -> None:
    """Import a log with the command, in a separate process, into a results file in this folder."""
    command = [sys.executable, "-m", "vnetbench", "import", str(path), "--workload", TCP_STREAM]
    subprocess.run([*command, "-o", str(folder / "imported.vnb")], check=True, stdout=subprocess.DEVNULL)


def _shift_intervals(intervals: list[dict[str, Any]], copy_number: int) -> Iterator[Mapping[str, Any]]:
    offset_s = copy_number * intervals[-1]["sum"]["end"]
    for interval in intervals:
        streams = [{**each, **_shift_times(each, offset_s)} for each in interval["streams"]]
        yield {
            **interval,
            "streams": streams,
            "sum": {**interval["sum"], **_shift_times(interval["sum"], offset_s)},
        }


def _shift_times(values: Mapping[str, Any], offset_s: float) -> dict[str, float]:
    return {"start": values["start"] + offset_s, "end": values["end"] + offset_s}


@click.command()
@click.option(
    "--mib", default=1024, show_default=True, type=click.IntRange(1), help="Size of the log, in MiB."
)
@click.option(
    "--folder", type=click.Path(path_type=Path, file_okay=False), help="Folder for temporary files."
)
def main(mib: int, folder: Path | None) -> None:
    """Import a long text log with the command and report the peak memory."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        log = Path(name) / "long.log"
        write_text(log, mib * _MIB)
        start_s = time.monotonic()
        import_text(log, Path(name))
        elapsed_s = time.monotonic() - start_s
        size = log.stat().st_size
        results = (Path(name) / "imported.vnb").stat().st_size
    peak_kib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    click.echo(f"{size / _MIB:.0f} MiB in {elapsed_s:.0f} s: {size / elapsed_s / 1e6:.1f} MB/s")
    click.echo(f"peak memory: {peak_kib / 1024:.0f} MiB; results file: {results / _MIB:.0f} MiB")


if __name__ == "__main__":
    main()
