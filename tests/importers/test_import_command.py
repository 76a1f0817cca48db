"""Call `vnetbench import`: its files, exit codes, and messages about what it could not read."""

from __future__ import annotations

from pathlib import Path

import pytest

from vnetbench.cli import cli
from vnetbench.commands import exit_codes
from vnetbench.errors import BenchError

pytestmark = pytest.mark.pure

RUN = """\
$ iperf3 -c 10.0.0.2 -t 2 -P 1
Connecting to host 10.0.0.2, port 5201
[  5] local 10.0.0.1 port 40000 connected to 10.0.0.2 port 5201
[ ID] Interval           Transfer     Bitrate         Retr  Cwnd
[  5]   0.00-1.00   sec  1.62 GBytes  13.9 Gbits/sec    0   3.01 MBytes
[  5]   1.00-2.00   sec  1.62 GBytes  13.9 Gbits/sec    0   3.01 MBytes
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bitrate         Retr
[  5]   0.00-2.00   sec  3.24 GBytes  13.9 Gbits/sec    0             sender
[  5]   0.00-2.00   sec  3.24 GBytes  13.9 Gbits/sec                  receiver

iperf Done.
"""
CUT_OFF_RUN = "".join(RUN.splitlines(keepends=True)[:5])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_command(*arguments: str) -> int:
    code = cli.main(list(arguments), standalone_mode=False)
    return int(code or 0)


def test_a_log_becomes_a_results_file_of_the_same_name(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "testresult01.log").write_text(RUN * 3)

    assert run_command("import", "testresult01.log") == 0
    assert (folder / "testresult01.vnb").exists()
    assert "imported 3 of 3 runs" in capsys.readouterr().out


def test_the_first_command_after_an_import_computes_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    (folder / "a.log").write_text(RUN * 3)
    run_command("import", "a.log")
    for name in ("estimate.summarize.summarize", "report.text.narrative.build_narrative"):
        monkeypatch.setattr(f"vnetbench.{name}", lambda _: pytest.fail("it computes again"))
    assert run_command("show", "a.vnb") == run_command("explain", "a.vnb") == 0
    assert "13.9" in capsys.readouterr().out


def test_incomplete_runs_are_reported_by_line_and_the_rest_is_imported(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "a.log").write_text(RUN + CUT_OFF_RUN + RUN + CUT_OFF_RUN)

    assert run_command("import", "a.log", "-o", "a.vnb") == exit_codes.INPUT_PARTLY_READ
    assert (
        "imported 2 of 4 runs\n  2 not imported: the last lines of the run are missing (lines 13, 30)"
        in capsys.readouterr().out
    )
    assert (folder / "a.vnb").exists()


def test_strict_writes_no_file_if_a_run_is_incomplete(folder: Path) -> None:
    (folder / "a.log").write_text(RUN + CUT_OFF_RUN)

    with pytest.raises(
        BenchError,
        match=r"could not be read\n.*\n  1 not imported: the last lines of the run are missing \(line 13\)",
    ):
        run_command("import", "a.log", "--strict")
    assert not list(folder.glob("*.vnb"))


def test_all_logs_of_a_folder_are_imported(folder: Path) -> None:
    (folder / "results").mkdir()
    (folder / "results" / "a.log").write_text(RUN)
    (folder / "results" / "b.log").write_bytes(RUN.encode("utf-16"))

    assert run_command("import", "results/", "--factor", "mtu=9000", "--factor", "label_host=esx7") == 0
    assert (folder / "results.vnb").exists()


def test_each_workload_gets_its_own_file(folder: Path) -> None:
    netperf = (
        "MIGRATED TCP REQUEST/RESPONSE TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 127.0.0.1 () "
        "port 0 AF_INET : first burst 0\nLocal /Remote\nSocket Size   Request  Resp.   Elapsed  Trans.\n"
        "Send   Recv   Size     Size    Time     Rate         \n"
        "bytes  Bytes  bytes    bytes   secs.    per sec   \n\n"
        "16384  131072 1        1       1.00     29126.52   \n16384  131072\n"
    )
    (folder / "both.log").write_text(RUN + netperf)

    with pytest.raises(BenchError, match="several workloads"):
        run_command("import", "both.log", "-o", "both.vnb")
    assert run_command("import", "both.log") == 0
    assert sorted(path.name for path in folder.glob("*.vnb")) == ["both-tcp_rr.vnb", "both-tcp_stream.vnb"]


def test_a_log_of_an_unknown_tool_is_an_error_with_its_first_line(folder: Path) -> None:
    (folder / "notes.txt").write_text("we measured 10 Gbit/s\n")

    with pytest.raises(BenchError, match=r"no run of a supported tool\n.*\n.*\n.*notes\.txt:1: we measured"):
        run_command("import", "notes.txt")


@pytest.mark.parametrize(
    ("option", "what"),
    [("mtu", "needs a factor and a level"), ("mtuu=1", "not a factor"), ("mtu=x", "not a whole number")],
)
def test_an_invalid_factor_is_named(folder: Path, option: str, what: str) -> None:
    (folder / "a.log").write_text(RUN)

    with pytest.raises(BenchError, match=what):
        run_command("import", "a.log", "--factor", option)


def test_a_log_can_have_any_name(folder: Path) -> None:
    name = "a\x1b[31m\udcff.log"
    (folder / name).write_text(RUN)

    assert run_command("import", name, "-o", "a.vnb") == 0
    assert run_command("show", "a.vnb") == 0


def test_results_are_never_overwritten(folder: Path) -> None:
    (folder / "a.log").write_text(RUN)
    assert run_command("import", "a.log") == 0

    with pytest.raises(BenchError, match="never overwritten"):
        run_command("import", "a.log")
    assert (folder / "a.vnb").exists()


def test_an_import_cannot_be_resumed(folder: Path) -> None:
    (folder / "a.log").write_text(RUN)
    run_command("import", "a.log")

    with pytest.raises(BenchError, match="cannot run a study with lab"):
        run_command("resume", "a.vnb")
