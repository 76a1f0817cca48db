"""A trial of 0.7 s with 16 streams takes at most 20 kB of a results file."""

from __future__ import annotations

from pathlib import Path

from bench.large_files import write_sampled_file


def test_a_short_trial_with_sixteen_streams_takes_at_most_20_kb(tmp_path: Path) -> None:
    sizes = []
    for count in (20, 60):
        path = tmp_path / f"{count}.vnb"
        write_sampled_file(path, count, tmp_path)
        sizes.append(path.stat().st_size)
    assert 0 < (sizes[1] - sizes[0]) / 40 <= 20_000
