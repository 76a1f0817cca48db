"""Explain imported runs: logs have little evidence, and a wrong cause is worse than none."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from vnetbench.cli import cli
from vnetbench.errors import BenchError
from vnetbench.estimate.summarize import summarize
from vnetbench.explain.explain import explain
from vnetbench.results.file import ResultsFile

pytestmark = pytest.mark.pure

LOGS = Path(__file__).parents[1] / "data" / "logs"


@pytest.mark.parametrize("tool", sorted(path.name for path in LOGS.iterdir() if path.is_dir()))
def test_no_fault_is_named_from_a_log(tool: str, tmp_path: Path) -> None:
    explained = 0
    for log in sorted((LOGS / tool).iterdir()):
        file = tmp_path / f"{log.name}.vnb"
        if log.suffix == ".toml" or not _is_imported(log, file):
            continue
        explained += 1
        results = ResultsFile.open_to_read(file)
        findings = explain(summarize(results)).findings
        results.close()
        candidates = {
            candidate.cause.name: candidate for finding in findings for candidate in finding.candidates
        }
        candidates.pop("too_few_trials", None)
        assert not [name for name, candidate in candidates.items() if candidate.cause.is_fault], log.name
        assert any(finding.kind in ("limit", "not explained") for finding in findings), log.name
    assert explained


def _is_imported(log: Path, file: Path) -> bool:
    with suppress(BenchError):
        cli.main(["import", str(log), "-o", str(file)], standalone_mode=False)
    return file.exists()
