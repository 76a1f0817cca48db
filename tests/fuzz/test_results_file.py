"""Fuzz target: a results file that an attacker changed is read and printed, or refused with a fix."""

from __future__ import annotations

import io
import random
import tempfile
from contextlib import redirect_stdout
from functools import lru_cache
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

from tests.fuzz.limits import limit_cpu_time, read_folder
from tests.fuzz.results_file_mutations import make_seeds, mutate_file
from vnetbench.cli import _print_headlines_and_estimates
from vnetbench.commands.summaries import read_summary_with_experiments
from vnetbench.errors import BenchError
from vnetbench.printable import make_printable
from vnetbench.report.export.campaign_csv import campaign_csv
from vnetbench.report.export.campaign_json import campaign_json, explanation_json
from vnetbench.report.export.markdown import campaign_markdown
from vnetbench.report.page.html import render_page
from vnetbench.report.text.narrative import build_narrative

pytestmark = pytest.mark.pure

PAGE_EVERY = 10
"""One of so many files is also rendered as a page, which takes long."""


@lru_cache
def seeds() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        return make_seeds(Path(folder))


@given(st.randoms(use_true_random=False))
def test_a_mutated_results_file_is_printed_or_refused(draw: random.Random) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "r.vnb"
        path.write_bytes(draw.choice(seeds()))
        mutate_file(draw, path)
        others = folder / "others"
        others.mkdir()
        (others / "precious").write_text("precious")
        with limit_cpu_time():
            try:
                texts = print_all(path, with_page=draw.randrange(PAGE_EVERY) == 0)
            except BenchError as error:
                assert error.what and error.fix
                texts = []
        for text in texts:
            assert make_printable(text, keep="\r\n") == text
            text.encode()  # no half of a surrogate pair, which a terminal could not print
        # The file itself may be rolled back with its journal. Nothing else is written or removed.
        assert set(read_folder(folder)) <= {"r.vnb", "r.vnb-journal", "r.vnb-wal"}
        assert read_folder(others) == {"precious": b"precious"}


def print_all(path: Path, *, with_page: bool) -> list[str]:
    """Return what the reading commands print of a file; raises BenchError."""
    summary = read_summary_with_experiments(path)
    terminal = io.StringIO()
    with redirect_stdout(terminal):
        _print_headlines_and_estimates(summary)
    exports = [export(summary) for export in (campaign_json, campaign_csv, campaign_markdown)]
    exports.append(explanation_json(summary, build_narrative(summary)))
    if with_page:
        render_page([summary])
    return [terminal.getvalue(), *exports]
