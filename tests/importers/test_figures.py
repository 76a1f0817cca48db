"""Import runs whose figures are missing, and check what `import` says about them and about unknown tools."""

from __future__ import annotations

from pathlib import Path

import pytest

from vnetbench.cli import cli
from vnetbench.commands import exit_codes
from vnetbench.errors import BenchError
from vnetbench.estimate.summarize import summarize
from vnetbench.estimate.summary import TrialPoint
from vnetbench.importers.arithmetic import has_observation_beyond
from vnetbench.report.text.notes import campaign_notes
from vnetbench.results.file import ResultsFile

pytestmark = pytest.mark.pure

LOGS = Path(__file__).parents[1] / "data" / "logs"
NUTTCP_RUN = """\
  100.0000 MB /   1.00 sec =  838.8608 Mbps

  200.0000 MB /   2.00 sec =  838.8608 Mbps 5 %TX 5 %RX 0 retrans 0.14 msRTT
"""
CONNECTIONS = """\
Using destination: 10.0.0.2, ip: 10.0.0.2, port: 8888
Protocol    Interval      Conn/s
  TCP      000-001 sec        5K
Ethr done, duration: 1s.
"""
UNKNOWN_TOOLS = (
    "stream 0: sent 20 messages at 941.3 megabits/second in 10 s",
    "2026-11-23 10:00:00 p50 12 us p99 40 us, 81000 req/s",
    "total 12 GB in 10 s: 9.6 Gbit/s",
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_command(*arguments: str) -> int:
    return int(cli.main(list(arguments), standalone_mode=False) or 0)


def test_a_run_without_a_figure_is_not_imported(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "a.log").write_text(NUTTCP_RUN + CONNECTIONS)

    assert run_command("import", "a.log") == exit_codes.INPUT_PARTLY_READ
    printed = capsys.readouterr().out
    assert "imported 1 of 2 runs" in printed
    assert "ethr reported no result that is a metric of vnetbench (it reported: ended, Conn/s)" in printed


def test_strict_refuses_a_run_without_a_figure(folder: Path) -> None:
    (folder / "a.log").write_text(NUTTCP_RUN + CONNECTIONS)

    with pytest.raises(BenchError, match="no result that is a metric"):
        run_command("import", "a.log", "--strict")


@pytest.mark.parametrize("line", UNKNOWN_TOOLS)
def test_results_of_an_unknown_tool_beside_a_known_one_change_the_exit_code(
    line: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "a.log").write_text(f"{NUTTCP_RUN}\n{line}\n")

    assert run_command("import", "a.log") == exit_codes.INPUT_PARTLY_READ
    assert line[:60] in capsys.readouterr().out


def test_each_unknown_tool_is_quoted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "a.log").write_text(f"alphaperf started\n{NUTTCP_RUN}\nbetaperf started\n")

    assert run_command("import", "a.log") == 0
    printed = capsys.readouterr().out
    assert "a.log:1: alphaperf started" in printed
    assert "betaperf started" in printed


def test_a_refused_run_is_not_called_an_unsupported_tool(folder: Path) -> None:
    (folder / "a.log").write_text((LOGS / "uperf" / "refused-client.log").read_text())

    with pytest.raises(BenchError, match="no complete run") as raised:
        run_command("import", "a.log")
    assert "--mapping" not in str(raised.value.fix)


def test_the_duration_of_a_trial_is_that_of_its_tool(folder: Path) -> None:
    (folder / "a.log").write_text(NUTTCP_RUN)

    assert run_command("import", "a.log", "-o", "a.vnb") == 0
    assert [point.duration_s for point in read_points(folder / "a.vnb")] == [2.0]


def test_a_duration_that_no_log_names_is_not_invented(folder: Path) -> None:
    (folder / "a.log").write_text((LOGS / "netperf" / "tcp-rr-histogram-client.log").read_text())

    assert run_command("import", "a.log", "-o", "a.vnb") == 0
    assert [point.duration_s for point in read_points(folder / "a.vnb")] == [0.0]


def test_no_note_hides_what_a_tool_reported(folder: Path) -> None:
    log = (LOGS / "goben" / "udp-both-client.log").read_text()
    refused = "workLoop: 0/1 clientWriter: write udp 10.0.0.1:1->10.0.0.2:2: write: connection refused n=0"
    lines = log.splitlines()
    (folder / "a.log").write_text("\n".join([*lines[:12], f"{lines[0][:20]}{refused}", *lines[12:]]) + "\n")

    assert run_command("import", "a.log", "-o", "a.vnb") == 0
    results = ResultsFile.open_to_read(folder / "a.vnb")
    notes = " ".join(campaign_notes(summarize(results)))
    results.close()
    assert "connection refused" in notes
    assert "--maxSpeed limited" in notes


def test_a_thousand_observations_have_one_beyond_the_percentile_99_9() -> None:
    assert has_observation_beyond(1000, 99.9)
    assert not has_observation_beyond(999, 99.9)
    assert has_observation_beyond(100_000, 99.999)


def read_points(path: Path) -> list[TrialPoint]:
    """Return the trials of a results file."""
    results = ResultsFile.open_to_read(path)
    summary = summarize(results)
    results.close()
    return [point for treatment in summary.treatments for point in treatment.points]
