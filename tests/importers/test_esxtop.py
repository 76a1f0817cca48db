"""What esxtop counted beside runs: which of its columns are kept, and which moments belong to a run."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from vnetbench.errors import BenchError
from vnetbench.importers.decoding import decode_lines
from vnetbench.importers.esxtop import attach_host_counters, read_host_counters, is_esxtop
from vnetbench.importers.runs import ReportedValue, Run

pytestmark = pytest.mark.pure

LOG = Path(__file__).parent.parent / "data" / "esxtop" / "two-vms.csv"
HEAD = '"(PDH-CSV 4.0) (UTC)(0)","\\\\esx1\\Physical Cpu(_Total)\\% Util Time"'
NOON = datetime(2025, 11, 5, 12, 0, 0, tzinfo=UTC)


def test_the_columns_that_matter_are_kept_and_no_others() -> None:
    with LOG.open("rb") as stream:
        moments = list(read_host_counters(decode_lines(stream)))

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


def test_the_means_of_a_run_are_of_the_intervals_within_its_time() -> None:
    log = _log(*((5 * i, value) for i, value in enumerate([99, 10, 20, 40, 80])))

    (run,) = attach_host_counters([_run(NOON + timedelta(seconds=4), duration_s=12, omitted_s=1)], read_host_counters(log))

    # From 12:00:05 to 12:00:17: the intervals that end at 10 s and at 15 s.
    assert run.other_results == {"esxtop: esx1: host busy %": "30"}
    assert run.metrics["host_cpu_percent"] == ReportedValue(30.0, 29.995, 30.005)
    assert run.remarks == ("what esxtop counted is beside it, matched by time",)


def test_longer_intervals_weigh_more() -> None:
    (run,) = attach_host_counters([_run(NOON, 100)], read_host_counters(_log((0, 99), (10, 10), (40, 50))))

    assert run.other_results == {"esxtop: esx1: host busy %": "40"}


def test_the_first_moment_belongs_to_no_run() -> None:
    (run,) = attach_host_counters([_run(NOON - timedelta(seconds=60), 61)], read_host_counters(_log((0, 99), (10, 10))))

    assert run.other_results == {}
    assert run.remarks == (
        "nothing of esxtop stands beside it: no interval of esxtop's lies within its time",
    )


def test_a_run_without_a_date_gets_nothing_and_says_so() -> None:
    (run,) = attach_host_counters([_run(None, 10)], read_host_counters(_log((0, 1), (5, 2))))

    assert run.metrics == {}
    assert run.remarks == ("nothing of esxtop stands beside it: its log does not tell when it ran",)


def test_a_run_without_a_time_zone_is_taken_to_be_in_that_of_esxtop() -> None:
    (run,) = attach_host_counters([_run(NOON.replace(tzinfo=None), 10)], read_host_counters(_log((0, 1), (5, 2), (10, 4))))

    assert run.other_results == {"esxtop: esx1: host busy %": "3"}
    assert "names no time zone" in run.remarks[1]


def test_the_zone_of_the_titles_and_that_of_the_run_are_told_apart() -> None:
    log = [line.replace("(UTC)(0)", "(Pacific Standard Time)(480)") for line in _log((0, 1), (5, 2), (10, 4))]
    east = timezone(timedelta(hours=2))

    (run,) = attach_host_counters([_run(datetime(2025, 11, 5, 22, 0, 0, tzinfo=east), 10)], read_host_counters(log))

    assert run.other_results == {"esxtop: esx1: host busy %": "3"}


def test_overlapping_runs_each_get_their_own() -> None:
    runs = [_run(NOON + timedelta(seconds=at), 10) for at in (10, 0, 5)]

    told = attach_host_counters(runs, read_host_counters(_log(*((5 * i, 10 * i) for i in range(5)))))

    assert [run.other_results["esxtop: esx1: host busy %"] for run in told] == ["35", "15", "25"]


def test_what_a_run_told_itself_stays() -> None:
    run = _run(NOON, 10, {"host_cpu_percent": ReportedValue.exact(77.0)})

    (told,) = attach_host_counters([run], read_host_counters(_log((0, 1), (5, 2))))

    assert told.metrics["host_cpu_percent"].value == 77.0


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("11/05/2025 12:00:00", NOON),
        ("11/05/2025 12:00:00.123", NOON),
        ("05.11.2025 12:00:00", NOON),
        ("2025-11-05 12:00:00", NOON),
        ("25/11/2025 12:00:00", NOON.replace(day=25)),
    ],
)
def test_times_are_read_as_esxtop_and_spreadsheets_write_them(written: str, expected: datetime) -> None:
    assert [moment for moment, _ in read_host_counters([HEAD, f'"{written}","1.5"'])] == [expected]


def test_what_is_damaged_is_left_out() -> None:
    lines = [
        HEAD,
        '"11/05/2025 12:00:00","oops"',
        "",
        '"11/05/2025 12:0',
        HEAD,
        '"11/05/2025 12:00:05","nan"',
    ]

    assert [values for _, values in read_host_counters(lines)] == [{}, {}]


def test_no_log_of_esxtop_is_refused() -> None:
    with pytest.raises(BenchError, match="no log of esxtop"):
        list(read_host_counters(["a,b", "1,2"]))
    assert not is_esxtop("streams,rate")
    assert is_esxtop(HEAD)
    assert attach_host_counters([_run(NOON, 1)], iter(()))[0].remarks[0].endswith("holds nothing")


def test_thousands_of_columns_are_read_in_little_memory() -> None:
    titles = [f'"\\\\esx1\\Group Cpu({i}:helper{i})\\% Used"' for i in range(5000)]

    def lines() -> Iterator[str]:
        yield ",".join([HEAD, *titles])
        for i in range(300):
            yield ",".join([f'"11/05/2025 12:{i // 60:02}:{i % 60:02}"', '"50.00"', *['"12.34"'] * 5000])

    tracemalloc.start()
    (run,) = attach_host_counters([_run(NOON, 299)], read_host_counters(lines()))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert run.other_results == {"esxtop: esx1: host busy %": "50"}
    assert peak < 16 * 2**20


def _log(*moments: tuple[float, float]) -> list[str]:
    """Busy shares of the host by the seconds after noon when they were written down."""
    times = [(NOON + timedelta(seconds=at), value) for at, value in moments]
    return [HEAD, *(f'"{time:%m/%d/%Y %H:%M:%S}","{value:.2f}"' for time, value in times)]


def _run(
    started_at: datetime | None,
    duration_s: float,
    figures: dict[str, ReportedValue] | None = None,
    *,
    omitted_s: float = 0.0,
) -> Run:
    return Run(
        "iperf3", "3.12", 1, 2, "tcp_stream", {}, figures or {},
        duration_s=duration_s, omitted_s=omitted_s, started_at=started_at,
    )  # fmt: skip
