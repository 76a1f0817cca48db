"""Long logs, made of the tests' short ones: `python -m bench.long_logs` imports one and tells its memory."""

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

from vnetbench.study.workloads import STREAM

_LOGS = Path(__file__).parents[1] / "tests" / "data" / "logs" / "iperf3"
TEXT = _LOGS / "parallel-omit-verbose-3.12.log"
DOCUMENT = _LOGS / "json-two-3.12.log"
_MIB = 2**20


def write_text(path: Path, size: int) -> None:
    """A file of at least so many bytes: a run of iperf3 over and over."""
    run = TEXT.read_bytes() + b"\n"
    with path.open("wb") as file:
        for _ in range(-(-size // len(run))):
            file.write(run)


def write_document(path: Path, size: int) -> None:
    """A JSON document of iperf3 of about so many bytes: a run that goes on and on."""
    text = DOCUMENT.read_text()
    document, _ = json.JSONDecoder().raw_decode(text, text.index("{"))
    told = document["intervals"]
    times = size // len(json.dumps(told, indent="\t"))
    document["intervals"] = [later for turn in range(times) for later in _later(told, turn)]
    path.write_text(json.dumps(document, indent="\t") + "\n")


def import_text(path: Path, folder: Path) -> None:
    """Import it by the command, in a process of its own, into a results file in this folder."""
    command = [sys.executable, "-m", "vnetbench", "import", str(path), "--workload", STREAM]
    subprocess.run([*command, "-o", str(folder / "imported.vnb")], check=True, stdout=subprocess.DEVNULL)


def _later(intervals: list[dict[str, Any]], turn: int) -> Iterator[Mapping[str, Any]]:
    shift = turn * intervals[-1]["sum"]["end"]
    for interval in intervals:
        streams = [{**each, **_times(each, shift)} for each in interval["streams"]]
        yield {**interval, "streams": streams, "sum": {**interval["sum"], **_times(interval["sum"], shift)}}


def _times(told: Mapping[str, Any], shift: float) -> dict[str, float]:
    return {"start": told["start"] + shift, "end": told["end"] + shift}


@click.command()
@click.option("--mib", default=1024, show_default=True, type=click.IntRange(1), help="Length of the log.")
@click.option(
    "--folder", type=click.Path(path_type=Path, file_okay=False), help="Where there is room for it."
)
def main(mib: int, folder: Path | None) -> None:
    """Import a long text log by the command, and tell how much memory that took at most."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        log = Path(name) / "long.log"
        write_text(log, mib * _MIB)
        began = time.monotonic()
        import_text(log, Path(name))
        took_s = time.monotonic() - began
        size = log.stat().st_size
        results = (Path(name) / "imported.vnb").stat().st_size
    peak_kib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    click.echo(f"{size / _MIB:.0f} MiB in {took_s:.0f} s: {size / took_s / 1e6:.1f} MB/s")
    click.echo(f"most memory: {peak_kib / 1024:.0f} MiB; results file: {results / _MIB:.0f} MiB")


if __name__ == "__main__":
    main()
