"""Write imported runs as treatments and ordered trials, and estimate them."""

from __future__ import annotations

import zlib
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests import fixtures
from tests.importers.toy_tool import TOY
from vnetbench.errors import BenchError
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.importers.log_parser import parse_log
from vnetbench.importers.results_writer import TOOL_LABEL_FACTOR, write_results
from vnetbench.importers.run_store import RunStore
from vnetbench.importers.runs import CUT_OFF_FAILURE, Run
from vnetbench.report.comparison import compare_campaigns
from vnetbench.results.file import ResultsFile
from vnetbench.study.factors.imported_factors import UNSPECIFIED
from vnetbench.study.factors.registry import parse_level
from vnetbench.study.model import Level

pytestmark = pytest.mark.pure

RISING_SIZES = (20, 50, 80)


def format_run(
    rate: float,
    streams: int | None = 1,
    *,
    sizes: tuple[float, ...] = (),
    omitted: int = 0,
    by: str = "receiver",
) -> str:
    """Return a run of the toy tool, with an interval of one second for each of `sizes` in MB."""
    head = f"toy 1.2{f' streams={streams}' if streams else ''} by={by}\n"
    lines = [
        f"  {'(' if number < omitted else ''}{number + 1}.0 {size:g} MB{')' if number < omitted else ''}\n"
        for number, size in enumerate(sizes)
    ]
    return f"{head}{''.join(lines)}= {rate:g} Mbit/s {len(sizes) - omitted or 10}.0 s\n"


def store_logs(logs: dict[str, str], factors: dict[str, Level] | None = None) -> RunStore:
    store = RunStore(factors or {})
    for name, text in logs.items():
        store.start_log(name)
        for item in parse_log(text.splitlines(), TOY):
            store.add_item(name, item)
        store.finish_log_or_drop_duplicate(text.encode())
    return store


def import_logs(
    path: Path, logs: dict[str, str], factors: dict[str, Level] | None = None, workload: str = "tcp_stream"
) -> CampaignSummary:
    path.unlink(missing_ok=True)
    write_results(store_logs(logs, factors), workload, path, "Imported: some logs")
    return fixtures.read_summary(path)


def test_runs_of_the_same_factors_are_trials_of_one_treatment(tmp_path: Path) -> None:
    log = format_run(800) + format_run(1600, 2) + format_run(820) + format_run(810)

    one, two = import_logs(tmp_path / "a.vnb", {"a.log": log}).treatments
    assert [dict(one.factors), dict(two.factors)] == [{"streams": 1}, {"streams": 2}]
    assert [point.values["goodput_bps"] for point in one.points] == [800e6, 820e6, 810e6]
    assert [point.block for point in one.points] == [0, 1, 2]
    assert [point.since_campaign_start_s for point in one.points] == [0, 20, 30]
    assert one.stop_reason == "imported"


def test_a_trial_names_its_log(tmp_path: Path) -> None:
    summary = import_logs(tmp_path / "a.vnb", {"a.log": "a note\n" + format_run(800)})

    log = summary.treatments[0].points[0].imported_log
    assert (log["tool"], log["version"], log["log"], log["lines"]) == ("toy", "1.2", "a.log", [2, 3])
    assert any(
        "the trials were imported, not measured by vnetbench: 1 trial of toy 1.2 from a.log" in each
        for each in summary.warnings
    )


def test_a_factor_that_some_runs_lack_is_unspecified_there(tmp_path: Path) -> None:
    summary = import_logs(tmp_path / "a.vnb", {"a.log": format_run(800) + format_run(900, None)})

    assert [dict(t.factors) for t in summary.treatments] == [{"streams": 1}, {"streams": UNSPECIFIED}]


def test_a_fixed_factor_applies_to_runs_that_lack_it(tmp_path: Path) -> None:
    set_: dict[str, Level] = {"streams": 1, "mtu": 9000, "label_host": "esx, 7 .. 8"}
    (treatment,) = import_logs(
        tmp_path / "a.vnb", {"a.log": format_run(800) + format_run(900, None)}, set_
    ).treatments

    assert dict(treatment.factors) == set_


def test_a_fixed_factor_that_contradicts_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=r"a\.log:1: the run has streams = 1"):
        store_logs({"a.log": format_run(800)}, {"streams": 4})


def test_a_warm_up_that_the_tool_kept_is_removed_and_noted(tmp_path: Path) -> None:
    log = "".join(
        format_run(720, sizes=(*RISING_SIZES, *(100 + (n + k) % 3 for n in range(27)))) for k in range(6)
    )

    (treatment,) = import_logs(tmp_path / "a.vnb", {"a.log": log}).treatments
    assert all(3 <= point.warmup_s < 30 for point in treatment.points)
    assert treatment.metrics["goodput_bps"].value == pytest.approx(8 * 101e6, rel=0.01)
    assert "warm-up" in treatment.notes[0]


def test_the_tools_own_result_counts_if_it_omitted_the_warm_up(tmp_path: Path) -> None:
    log = "".join(
        format_run(805 + k, sizes=(*RISING_SIZES, *(100 + n % 3 for n in range(27))), omitted=3)
        for k in range(6)
    )

    (treatment,) = import_logs(tmp_path / "a.vnb", {"a.log": log}).treatments
    assert [point.warmup_s for point in treatment.points] == [3] * 6
    assert treatment.metrics["goodput_bps"].value == pytest.approx(807.5e6)
    assert not treatment.notes


def test_rounding_widens_the_interval(tmp_path: Path) -> None:
    log = "".join(format_run(rate) for rate in (800, 801, 802, 803, 804, 805, 806))

    estimate = import_logs(tmp_path / "a.vnb", {"a.log": log}).treatments[0].metrics["goodput_bps"]
    narrow = [800e6, 806e6]
    assert estimate.low is not None
    assert estimate.high is not None
    assert estimate.low < narrow[0] + 1e6
    assert estimate.high - estimate.low > 0.5e6
    alike = (
        import_logs(tmp_path / "a.vnb", {"a.log": format_run(800) * 7}).treatments[0].metrics["goodput_bps"]
    )
    assert (alike.low, alike.high) == (799.5e6, 800.5e6)


def test_logs_of_both_endpoints_become_one_trial(tmp_path: Path) -> None:
    client = "".join(format_run(rate, by="sender") for rate in (800, 900, 1000))
    server = "".join(format_run(rate - 5, None, by="receiver") for rate in (800, 900, 1000))

    (treatment,) = import_logs(tmp_path / "a.vnb", {"client.log": client, "server.log": server}).treatments
    assert [point.values["goodput_bps"] for point in treatment.points] == [795e6, 895e6, 995e6]
    assert dict(treatment.factors) == {"streams": 1}
    assert "client.log line 1" in treatment.points[0].notes[0]


def test_logs_of_endpoints_that_disagree_stay_separate_trials_with_a_warning(tmp_path: Path) -> None:
    logs = {"client.log": format_run(800, by="sender"), "server.log": format_run(300, by="receiver")}

    summary = import_logs(tmp_path / "a.vnb", logs)
    assert summary.treatments[0].trial_count == 2
    assert any("are from the sender" in each for each in summary.warnings)


def test_runs_of_two_tools_are_separate_treatments(tmp_path: Path) -> None:
    both = store_logs({"a.log": format_run(800)})
    (item,) = parse_log(format_run(900).splitlines(), TOY)
    assert isinstance(item, Run)
    both.add_item("b.log", replace(item, tool="other"))
    write_results(both, "tcp_stream", tmp_path / "a.vnb", "Two tools")

    file = ResultsFile.open_to_read(tmp_path / "a.vnb")
    assert [t.factors[TOOL_LABEL_FACTOR] for t in file.treatments()] == ["toy", "other"]
    file.close()


def test_a_run_cut_off_is_no_trial_and_its_line_is_kept(tmp_path: Path) -> None:
    summary = import_logs(tmp_path / "a.vnb", {"a.log": format_run(800) + "toy 1.2 streams=1\n  1.0 80 MB\n"})

    assert summary.treatments[0].trial_count == 1
    read = summary.facts["imported"]["read"]
    assert isinstance(read, dict)
    assert (read["runs"], read["incomplete_runs"]) == (2, 1)
    assert (read["skipped"][0]["first_line"], read["skipped"][0]["reason"]) == (3, CUT_OFF_FAILURE)


def test_an_impossible_level_marks_a_run_as_damaged() -> None:
    store = store_logs({"a.log": format_run(800, 99_999) + format_run(800)})

    assert (store.complete_run_count, store.unreadable_section_or_log_count) == (1, 1)


def test_a_copy_of_a_log_adds_no_trials() -> None:
    log = format_run(800) + format_run(820) + "toy 1.2 streams=1\n  1.0 80 MB\n"

    store = store_logs({"a.log": log, "b.log": format_run(900), "copy.log": log})
    assert (
        store.complete_run_count,
        store.incomplete_run_count_by_failure.total(),
        len(store.run_summaries("tcp_stream")),
    ) == (
        3,
        1,
        3,
    )
    assert store.original_by_duplicate_log == {"copy.log": "a.log"}
    assert store.count_runs_by_metric("tcp_stream")["goodput_bps"] == 3


def test_each_workload_gets_its_own_file(tmp_path: Path) -> None:
    log = format_run(800) + "toy 1.2 udp\n= 90 Mbit/s 10.0 s\n"

    summary = import_logs(tmp_path / "a.vnb", {"a.log": log}, workload="udp_stream")
    assert summary.deciding_metric == "goodput_bps"
    assert summary.treatments[0].trial_count == 1


def test_a_failed_write_leaves_no_file(tmp_path: Path) -> None:
    store = store_logs({"a.log": format_run(800)})
    store._db.execute("UPDATE run SET run = x'00'")

    with pytest.raises(zlib.error):
        write_results(store, "tcp_stream", tmp_path / "a.vnb", "title")
    assert list(tmp_path.iterdir()) == []


def test_a_new_import_removes_the_remains_of_a_killed_one(tmp_path: Path) -> None:
    (tmp_path / ".a.vnb.0123456789abcdef.part").write_text("half of it")
    import_logs(tmp_path / "a.vnb", {"a.log": format_run(800)})
    assert [path.name for path in tmp_path.iterdir()] == ["a.vnb"]


def test_an_import_leaves_files_of_others_and_running_imports_alone(tmp_path: Path) -> None:
    (tmp_path / "a.vnb.part").write_text("precious")
    (tmp_path / ".a.vnb.link.part").symlink_to(tmp_path / "a.vnb.part")
    running = tmp_path / ".a.vnb.fedcba9876543210.part"
    file, _ = fixtures.create_results_file(running)
    with closing(file):
        import_logs(tmp_path / "a.vnb", {"a.log": format_run(800)})
        assert running.exists()
    assert (tmp_path / "a.vnb.part").read_text() == "precious"


def test_an_unfinished_import_of_another_user_stops_no_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def open_for_owner_only(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("vnetbench.importers.results_writer.is_locked_by_writer", open_for_owner_only)
    (tmp_path / ".a.vnb.0123456789abcdef.part").write_text("of another user")
    import_logs(tmp_path / "a.vnb", {"a.log": format_run(800)})
    assert len(list(tmp_path.iterdir())) == 2


def test_many_intervals_are_joined_into_samples(tmp_path: Path) -> None:
    log = format_run(800, sizes=tuple(100 + n % 7 for n in range(5000)))

    (point,) = import_logs(tmp_path / "a.vnb", {"a.log": log}).treatments[0].points
    assert len(point.time_series) == 1667
    assert sum(point.time_series) / 1667 == pytest.approx(8 * 103e6, rel=1e-3)


def test_imports_are_compared_by_their_common_factors(tmp_path: Path) -> None:
    before = import_logs(tmp_path / "a.vnb", {"a.log": "".join(format_run(800 + k) for k in range(8))})
    log = "".join(format_run(1600 + k) for k in range(8))
    after = import_logs(tmp_path / "b.vnb", {"b.log": log}, {"mtu": 9000})

    comparison = compare_campaigns(before, after)
    assert len(comparison.changes) == 1
    assert comparison.changes[0].ratio.value == pytest.approx(2, rel=0.01)
    assert comparison.changes[0].is_significant_and_excludes_1
    assert [each.after for each in comparison.environment_differences if "mtu" in each.name] == ["9000"]
    assert "1.2 from a.log" in comparison.imported_log_notes[0]


def test_a_label_can_be_any_text() -> None:
    assert parse_level("label_esxi", "6.7u3, build 14320388") == "6.7u3, build 14320388"
    with pytest.raises(BenchError, match="not a label"):
        parse_level("label_a-b", "x")


def test_an_interval_without_data_is_no_negative_number(tmp_path: Path) -> None:
    """`0.00 Bytes` may be rounded, but its range starts at 0."""
    log = """\
Server listening on 5201
Accepted connection from 10.0.0.1, port 40001
[  5] local 10.0.0.2 port 5201 connected to 10.0.0.1 port 40002
[ ID] Interval           Transfer     Bitrate
[  5]   0.00-1.00   sec  10.9 MBytes  91.2 Mbits/sec
[  5]   1.00-1.04   sec  0.00 Bytes  0.00 bits/sec
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bitrate
[  5]   0.00-1.04   sec  10.9 MBytes  87.9 Mbits/sec                  receiver
"""
    store = RunStore({})
    for item in parse_log(log.splitlines()):
        store.add_item("server.log", item)
    path = tmp_path / "r.vnb"
    write_results(store, "tcp_stream", path, "Imported: a log")
    (treatment,) = fixtures.read_summary(path).treatments
    assert treatment.trial_count == 1
