"""`vnetbench import` as it is called: files, exit codes, and what it says of what it did not understand."""

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
CUT = "".join(RUN.splitlines(keepends=True)[:5])


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*arguments: str) -> int:
    code = cli.main(list(arguments), standalone_mode=False)
    return int(code or 0)


def test_a_log_becomes_a_file_of_its_name(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "testresult01.log").write_text(RUN * 3)

    assert call("import", "testresult01.log") == 0
    assert (here / "testresult01.vnb").exists()
    assert "imported 3 of 3 runs" in capsys.readouterr().out


def test_runs_cut_off_are_named_by_their_lines_and_the_rest_is_imported(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "a.log").write_text(RUN + CUT + RUN + CUT)

    assert call("import", "a.log", "-o", "a.vnb") == exit_codes.PARTLY_READ
    assert "imported 2 of 4 runs; 2 cut off (lines 13, 30)" in capsys.readouterr().out
    assert (here / "a.vnb").exists()


def test_strict_makes_no_file_of_a_log_that_is_not_all_read(here: Path) -> None:
    (here / "a.log").write_text(RUN + CUT)

    with pytest.raises(BenchError, match=r"--strict was asked for\n.*1 cut off \(line 13\)"):
        call("import", "a.log", "--strict")
    assert not list(here.glob("*.vnb"))


def test_an_archive_and_a_folder_are_read_as_the_logs_in_them(here: Path) -> None:
    (here / "results").mkdir()
    (here / "results" / "a.log").write_text(RUN)
    (here / "results" / "b.log").write_bytes(RUN.encode("utf-16"))

    assert call("import", "results/", "--factor", "mtu=9000", "--factor", "label_host=esx7") == 0
    assert (here / "results.vnb").exists()


def test_each_workload_gets_a_file_and_one_file_cannot_have_two(here: Path) -> None:
    netperf = (
        "MIGRATED TCP REQUEST/RESPONSE TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 127.0.0.1 () "
        "port 0 AF_INET : first burst 0\nLocal /Remote\nSocket Size   Request  Resp.   Elapsed  Trans.\n"
        "Send   Recv   Size     Size    Time     Rate         \n"
        "bytes  Bytes  bytes    bytes   secs.    per sec   \n\n"
        "16384  131072 1        1       1.00     29126.52   \n16384  131072\n"
    )
    (here / "both.log").write_text(RUN + netperf)

    with pytest.raises(BenchError, match="several workloads"):
        call("import", "both.log", "-o", "both.vnb")
    assert call("import", "both.log") == 0
    assert sorted(path.name for path in here.glob("*.vnb")) == ["both-tcp_rr.vnb", "both-tcp_stream.vnb"]


def test_a_log_of_no_known_tool_is_an_error_that_says_what_stands_in_it(here: Path) -> None:
    (here / "notes.txt").write_text("we measured 10 Gbit/s\n")

    with pytest.raises(BenchError, match=r"no whole run.*\n.*\n.*notes\.txt:1: we measured"):
        call("import", "notes.txt")


@pytest.mark.parametrize(
    ("option", "what"),
    [("mtu", "level are expected"), ("mtuu=1", "not a factor"), ("mtu=x", "not a whole number")],
)
def test_a_factor_that_is_none_is_named(here: Path, option: str, what: str) -> None:
    (here / "a.log").write_text(RUN)

    with pytest.raises(BenchError, match=what):
        call("import", "a.log", "--factor", option)


def test_a_log_may_have_any_name(here: Path) -> None:
    name = "a\x1b[31m\udcff.log"
    (here / name).write_text(RUN)

    assert call("import", name, "-o", "a.vnb") == 0
    assert call("show", "a.vnb") == 0


def test_results_are_never_overwritten(here: Path) -> None:
    (here / "a.log").write_text(RUN)
    assert call("import", "a.log") == 0

    with pytest.raises(BenchError, match="exists already"):
        call("import", "a.log")
    assert (here / "a.vnb").exists()


def test_what_was_imported_is_not_resumed(here: Path) -> None:
    (here / "a.log").write_text(RUN)
    call("import", "a.log")

    with pytest.raises(BenchError, match="nothing to measure"):
        call("resume", "a.vnb")
