"""Import tables and host counters with the command `import`."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from vnetbench.importers.esxtop import read_counter_intervals
from vnetbench.importers.run_store import RunStore
from vnetbench.importers.runs import RoundedValue, Run

pytestmark = pytest.mark.pure

DATA = Path(__file__).parent.parent / "data"
NOON = datetime(2025, 11, 5, 12, 0, 0, tzinfo=UTC)
HEAD = '"(PDH-CSV 4.0) (UTC)(0)","\\\\esx1\\Physical Cpu(_Total)\\% Util Time"'


def test_each_row_of_a_table_becomes_a_trial(tmp_path: Path) -> None:
    table, mapping = DATA / "tables" / "ntttcp-vmxnet3-2011.csv", DATA / "tables" / "ntttcp-vmxnet3-2011.toml"

    done = _run_import(str(table), "--mapping", str(mapping), "-o", str(tmp_path / "t.vnb"))

    assert done.returncode == 0, done.stderr
    assert "tcp_stream, 44 trials of 44 treatments" in done.stdout
    assert "imported 44 of 44 runs" in done.stdout


def test_an_invalid_cell_is_reported_and_no_file_is_written(tmp_path: Path) -> None:
    table = tmp_path / "a.csv"
    table.write_text("streams,rate\n1,fast\n")
    mapping = tmp_path / "m.toml"
    mapping.write_text(
        'workload = "tcp_stream"\n[metric]\ngoodput_bps = { column = "rate", unit = "Mbit/s" }\n'
    )

    done = _run_import(str(table), "--mapping", str(mapping), "-o", str(tmp_path / "t.vnb"))

    assert done.returncode == 2
    assert 'a.csv, row 2, column "rate": "fast" is not a number' in done.stderr
    assert not (tmp_path / "t.vnb").exists()


def test_a_workbook_without_a_mapping_asks_for_one(tmp_path: Path) -> None:
    book = tmp_path / "a.xlsx"
    book.write_bytes(b"PK\x03\x04")

    done = _run_import(str(book), "-o", str(tmp_path / "t.vnb"))

    assert done.returncode == 2
    assert "Describe its columns with --mapping" in done.stderr


def test_a_missing_mapping_file_is_reported(tmp_path: Path) -> None:
    done = _run_import(str(DATA / "tables" / "commas-cp1251.csv"), "--mapping", str(tmp_path / "no.toml"))

    assert done.returncode == 2
    assert "No such file" in done.stderr


def test_host_counters_are_attached_by_time_in_any_order_of_logs() -> None:
    store = RunStore()
    log = [HEAD, *(f'"{NOON + timedelta(seconds=at):%m/%d/%Y %H:%M:%S}","{at}"' for at in (0, 5, 10, 15))]
    store.store_host_counters("esxtop.csv", read_counter_intervals(log))
    for started_at in (NOON, NOON + timedelta(seconds=5), None):
        store.add_item("a.log", _run(started_at))

    store.attach_host_counters_to_runs()

    runs = [store.load_log_name_and_run(number)[1] for number in (1, 2, 3)]
    assert [run.other_results for run in runs] == [
        {"esxtop: esx1: host busy %": "7.5"},
        {"esxtop: esx1: host busy %": "12.5"},
        {},
    ]
    assert store.run_count_by_esxtop_log == {"esxtop.csv": 2}
    assert "does not say when the run started" in runs[2].remarks[0]
    store.close()


def test_a_run_gets_the_counters_of_several_hosts() -> None:
    store = RunStore()
    store.add_item("a.log", _run(NOON))
    for host, busy in (("esx1", 40), ("esx2", 60)):
        log = [
            HEAD.replace("esx1", host),
            '"11/05/2025 12:00:00","1"',
            f'"11/05/2025 12:00:05","{busy}"',
        ]
        store.store_host_counters(f"{host}.csv", read_counter_intervals(log))

    store.attach_host_counters_to_runs()

    run = store.load_log_name_and_run(1)[1]
    assert "host_cpu_percent" not in run.metrics
    assert run.other_results == {"esxtop: esx1: host busy %": "40", "esxtop: esx2: host busy %": "60"}
    store.close()


def _run(started_at: datetime | None) -> Run:
    return Run(
        "iperf3", "3.12", 1, 9, "tcp_stream", {"streams": 1}, {"goodput_bps": RoundedValue.exact(1e9)},
        measured_duration_s=10.0, started_at=started_at,
    )  # fmt: skip


def _run_import(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "vnetbench", "import", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
