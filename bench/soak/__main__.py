"""Disturb long campaigns at random, and report what they lost, left behind or let grow.

Run as root, under tools/in-lab: `make soak`. It ends with 1 if a guarantee was broken.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.soak.campaign import Record, Soak

FILE_SYSTEM_BYTES_PER_TRIAL = 400_000
SPARE_BYTES = 64 << 20


def main() -> int:
    """Run the soak test of each lab with trials; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--trials", type=int, default=3000, help="trials between namespaces")
    parser.add_argument("--guest-trials", type=int, default=0, help="trials between QEMU guests")
    parser.add_argument(
        "--seed", type=int, default=int(time.time()), help="seed of the faults and their times"
    )
    parser.add_argument("--output", type=Path, default=Path("out/soak"), help="folder of the record")
    arguments = parser.parse_args()
    started = time.monotonic()
    records = {}
    for lab, trials, duration_ms in (
        ("netns", arguments.trials, 150),
        ("qemu", arguments.guest_trials, 500),
    ):
        if trials:
            with small_file_system(trials) as folder:
                records[lab] = Soak(folder, lab, trials, duration_ms, arguments.seed).run()
    content = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "seed": arguments.seed,
        "elapsed_s": round(time.monotonic() - started),
        "labs": {lab: describe(record) for lab, record in records.items()},
    }
    arguments.output.mkdir(parents=True, exist_ok=True)
    path = arguments.output / f"{datetime.now(UTC):%Y%m%d-%H%M}-soak.json"
    path.write_text(json.dumps(content, indent=2) + "\n")
    print(json.dumps(content["labs"], indent=2))
    for lab, record in records.items():
        if not record.steady_usage.growths():
            print(f"{lab}: memory and open files are not judged, because the last session was too short.")
    print(f"Record: {path}")
    return int(any(not is_good(record) for record in records.values()))


@contextmanager
def small_file_system(trials: int) -> Iterator[Path]:
    """Mount a file system of its own for the results, which a fault may fill."""
    size = SPARE_BYTES + trials * FILE_SYSTEM_BYTES_PER_TRIAL
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=True)
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", folder], check=True)


def is_good(record: Record) -> bool:
    """Return whether no guarantee was broken, and neither memory nor open files grew."""
    return not record.violations and all(each.is_flat for each in record.steady_usage.growths())


def describe(record: Record) -> dict[str, Any]:
    """Return a record as JSON."""
    return {
        "sessions": record.sessions,
        "faults": dict(record.faults.most_common()),
        "exit_codes": dict(record.exit_codes.most_common()),
        "failed_trials": record.failed_trials,
        "violations": record.violations,
        "growth": [
            {
                "process": each.process,
                "figure": each.figure,
                "early": each.early,
                "late": each.late,
                "ratio": round(each.ratio, 3),
                "samples": each.sample_count,
                "flat": each.is_flat,
            }
            for each in record.steady_usage.growths()
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
