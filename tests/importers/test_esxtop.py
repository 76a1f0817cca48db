"""Read logs of esxtop, and attach their counters to the runs of the same time."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from vnetbench.errors import BenchError
from vnetbench.importers.decoding import decode_lines
from vnetbench.importers.esxtop import (
    attach_host_counters_within_runs,
    is_esxtop_header,
    read_counter_intervals,
)
from vnetbench.importers.runs import RoundedValue, Run

pytestmark = pytest.mark.pure

LOG = Path(__file__).parent.parent / "data" / "esxtop" / "two-vms.csv"
HEAD = '"(PDH-CSV 4.0) (UTC)(0)","\\\\esx1\\Physical Cpu(_Total)\\% Util Time"'
NOON = datetime(2025, 11, 5, 12, 0, 0, tzinfo=UTC)


def test_only_relevant_columns_are_kept() -> None:
    with LOG.open("rb") as stream:
        moments = list(read_counter_intervals(decode_lines(stream)))

    assert [moment for moment, _ in moments] == [NOON + timedelta(seconds=5 * i) for i in range(6)]
    assert moments[1][1] == {
        "esx1: host used %": 31.02,
        "esx1: host busy %": 40.5,
        "esx1: host cores busy %": 61.11,
        "esx1: VM sender used %": 101.5,
        "esx1: VM sender ready %": 2.25,
        "esx1: VM sender co-stop %": 0.0,
        "esx1: VM sender vmx-vcpu-0 used %": 71.4,
        "esx1: port vSwitch1/67108885 sender.eth0 sent Mbit/s": 9410.12,
        "esx1: port vSwitch1/67108885 sender.eth0 received Mbit/s": 101.77,
        "esx1: port vSwitch1/67108885 sender.eth0 sent packets/s": 801220.4,
        "esx1: port vSwitch1/67108885 sender.eth0 dropped of sent %": 0.5,
        "esx1: port vSwitch1/67108885 sender.eth0 dropped of received %": 0.0,
        "esx1: port vSwitch1/33554434 vmnic2 sent Mbit/s": 0.01,
        "esx1: VM receiver used %": 131.2,
        "esx1: port vSwitch1/67108886 receiver received Mbit/s": 9409.9,
    }


def test_means_cover_the_intervals_within_a_run() -> None:
    log = _log(*((5 * i, value) for i, value in enumerate([99, 10, 20, 40, 80])))

    (run,) = attach_host_counters_within_runs(
        [_run(NOON + timedelta(seconds=4), duration_s=12, omitted_s=1)], read_counter_intervals(log)
    )

    # From 12:00:05 to 12:00:17: the intervals that end at 10 s and at 15 s.
    assert run.other_results == {"esxtop: esx1: host busy %": "30"}
    assert run.metrics["host_cpu_percent"] == RoundedValue(30.0, 29.995, 30.005)
    assert run.remarks == ("The run has host counters from an esxtop log of the same time.",)


def test_means_are_weighted_by_interval_length() -> None:
    (run,) = attach_host_counters_within_runs(
        [_run(NOON, 100)], read_counter_intervals(_log((0, 99), (10, 10), (40, 50)))
    )

    assert run.other_results == {"esxtop: esx1: host busy %": "40"}


def test_the_first_interval_of_a_log_is_skipped() -> None:
    (run,) = attach_host_counters_within_runs(
        [_run(NOON - timedelta(seconds=60), 61)], read_counter_intervals(_log((0, 99), (10, 10)))
    )

    assert run.other_results == {}
    assert run.remarks == (
        "The run has no host counters from esxtop, because no interval of the esxtop log lies within the "
        "time of the run.",
    )


def test_a_run_without_a_date_gets_no_counters_and_a_remark() -> None:
    (run,) = attach_host_counters_within_runs([_run(None, 10)], read_counter_intervals(_log((0, 1), (5, 2))))

    assert run.metrics == {}
    assert run.remarks == (
        "The run has no host counters from esxtop, because the log does not say when the run started.",
    )


def test_a_run_without_a_time_zone_uses_that_of_esxtop() -> None:
    (run,) = attach_host_counters_within_runs(
        [_run(NOON.replace(tzinfo=None), 10)], read_counter_intervals(_log((0, 1), (5, 2), (10, 4)))
    )

    assert run.other_results == {"esxtop: esx1: host busy %": "3"}
    assert "names no time zone" in run.remarks[1]


def test_different_time_zones_of_log_and_run_are_converted() -> None:
    log = [line.replace("(UTC)(0)", "(Pacific Standard Time)(480)") for line in _log((0, 1), (5, 2), (10, 4))]
    east = timezone(timedelta(hours=2))

    (run,) = attach_host_counters_within_runs(
        [_run(datetime(2025, 11, 5, 22, 0, 0, tzinfo=east), 10)], read_counter_intervals(log)
    )

    assert run.other_results == {"esxtop: esx1: host busy %": "3"}


def test_overlapping_runs_get_their_own_means() -> None:
    runs = [_run(NOON + timedelta(seconds=at), 10) for at in (10, 0, 5)]

    updated = attach_host_counters_within_runs(
        runs, read_counter_intervals(_log(*((5 * i, 10 * i) for i in range(5))))
    )

    assert [run.other_results["esxtop: esx1: host busy %"] for run in updated] == ["35", "15", "25"]


def test_a_metric_that_a_run_reports_itself_is_kept() -> None:
    run = _run(NOON, 10, {"host_cpu_percent": RoundedValue.exact(77.0)})

    (updated,) = attach_host_counters_within_runs([run], read_counter_intervals(_log((0, 1), (5, 2))))

    assert updated.metrics["host_cpu_percent"].value == 77.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("11/05/2025 12:00:00", NOON),
        ("11/05/2025 12:00:00.123", NOON),
        ("05.11.2025 12:00:00", NOON),
        ("2025-11-05 12:00:00", NOON),
        ("25/11/2025 12:00:00", NOON.replace(day=25)),
    ],
)
def test_times_of_esxtop_and_of_spreadsheets_are_parsed(text: str, expected: datetime) -> None:
    assert [moment for moment, _ in read_counter_intervals([HEAD, f'"{text}","1.5"'])] == [expected]


def test_damaged_cells_and_lines_are_skipped() -> None:
    lines = [
        HEAD,
        '"11/05/2025 12:00:00","oops"',
        "",
        '"11/05/2025 12:0',
        HEAD,
        '"11/05/2025 12:00:05","nan"',
    ]

    assert [values for _, values in read_counter_intervals(lines)] == [{}, {}]


def test_a_log_of_another_program_is_refused() -> None:
    with pytest.raises(BenchError, match="not a log of esxtop"):
        list(read_counter_intervals(["a,b", "1,2"]))
    assert not is_esxtop_header("streams,rate")
    assert is_esxtop_header(HEAD)
    assert attach_host_counters_within_runs([_run(NOON, 1)], iter(()))[0].remarks[0].endswith("log is empty.")


def test_thousands_of_columns_need_little_memory() -> None:
    titles = [f'"\\\\esx1\\Group Cpu({i}:helper{i})\\% Used"' for i in range(5000)]

    def lines() -> Iterator[str]:
        yield ",".join([HEAD, *titles])
        for i in range(300):
            yield ",".join([f'"11/05/2025 12:{i // 60:02}:{i % 60:02}"', '"50.00"', *['"12.34"'] * 5000])

    tracemalloc.start()
    (run,) = attach_host_counters_within_runs([_run(NOON, 299)], read_counter_intervals(lines()))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert run.other_results == {"esxtop: esx1: host busy %": "50"}
    assert peak < 16 * 2**20


def _log(*moments: tuple[float, float]) -> list[str]:
    """Return a log of the host's utilization, by seconds after noon."""
    times = [(NOON + timedelta(seconds=at), value) for at, value in moments]
    return [HEAD, *(f'"{time:%m/%d/%Y %H:%M:%S}","{value:.2f}"' for time, value in times)]


def _run(
    started_at: datetime | None,
    duration_s: float,
    metrics: dict[str, RoundedValue] | None = None,
    *,
    omitted_s: float = 0.0,
) -> Run:
    return Run(
        "iperf3", "3.12", 1, 2, "tcp_stream", {}, metrics or {},
        measured_duration_s=duration_s, omitted_s=omitted_s, started_at=started_at,
    )  # fmt: skip
