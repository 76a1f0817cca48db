"""Store what commands show of a results file, so that the first command is as fast as the next ones."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from vnetbench.errors import BenchError


def store_estimates_and_narrative(path: Path) -> None:
    """Compute the estimates and the narrative of a complete results file, and store them in it.

    An error is not reported: the file is complete, and the command that shows it reports the error.
    """
    from vnetbench.commands.summaries import read_summary_without_experiments
    from vnetbench.report.text.stored_narrative import read_or_build_narrative

    with suppress(BenchError):
        read_or_build_narrative(read_summary_without_experiments(path))
