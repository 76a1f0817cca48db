"""What becomes of runs: treatments, trials in their order, and estimates that know what they rest on."""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from tests.importers.toy_tool import TOY
from vnetbench.errors import BenchError
from vnetbench.estimate.summarize import summarize
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.importers.log_parser import parse_log
from vnetbench.importers.results_writer import TOOL_LABEL, write_results
from vnetbench.importers.run_store import RunStore
from vnetbench.importers.runs import Run
from vnetbench.report.comparison import compare_campaigns
from vnetbench.results.file import ResultsFile
from vnetbench.study.factors.imported_factors import UNSPECIFIED
from vnetbench.study.factors.registry import parse_level
from vnetbench.study.model import Level

pytestmark = pytest.mark.pure

RISING = (20, 50, 80)


def run(
    rate: float,
    streams: int | None = 1,
    *,
    sizes: tuple[float, ...] = (),
    omitted: int = 0,
    by: str = "receiver",
) -> str:
    """A run of the toy, with an interval of a second for each of `sizes` in MB."""
    head = f"toy 1.2{f' streams={streams}' if streams else ''} by={by}\n"
    lines = [
        f"  {'(' if number < omitted else ''}{number + 1}.0 {size:g} MB{')' if number < omitted else ''}\n"
        for number, size in enumerate(sizes)
    ]
    return f"{head}{''.join(lines)}= {rate:g} Mbit/s {len(sizes) - omitted or 10}.0 s\n"


def gathered(logs: dict[str, str], factors: dict[str, Level] | None = None) -> RunStore:
    found = RunStore(factors or {})
    for name, text in logs.items():
        found.start_log(name)
        for item in parse_log(text.splitlines(), TOY):
            found.add_item(name, item)
        found.finish_log(text.encode())
    return found


def imported(
    path: Path, logs: dict[str, str], factors: dict[str, Level] | None = None, workload: str = "tcp_stream"
) -> CampaignSummary:
    path.unlink(missing_ok=True)
    write_results(gathered(logs, factors), workload, path, "Imported: some logs")
    file = ResultsFile.open_to_read(path)
    try:
        return summarize(file)
    finally:
        file.close()


def test_runs_of_the_same_factors_are_trials_of_one_treatment(tmp_path: Path) -> None:
    log = run(800) + run(1600, 2) + run(820) + run(810)

    one, two = imported(tmp_path / "a.vnb", {"a.log": log}).treatments
    assert [dict(one.factors), dict(two.factors)] == [{"streams": 1}, {"streams": 2}]
    assert [point.values["goodput_bps"] for point in one.points] == [800e6, 820e6, 810e6]
    assert [point.block for point in one.points] == [0, 1, 2]
    assert [point.started_s for point in one.points] == [0, 20, 30]
    assert one.stopped_by == "imported"


def test_a_trial_says_what_it_was_imported_from(tmp_path: Path) -> None:
    summary = imported(tmp_path / "a.vnb", {"a.log": "a note\n" + run(800)})

    told = summary.treatments[0].points[0].imported_log
    assert (told["tool"], told["version"], told["log"], told["lines"]) == ("toy", "1.2", "a.log", [2, 3])
    assert any(
        "imported, not measured here: 1 trial of toy 1.2 from a.log" in each for each in summary.warnings
    )


def test_a_factor_that_some_runs_do_not_tell_is_untold_there(tmp_path: Path) -> None:
    summary = imported(tmp_path / "a.vnb", {"a.log": run(800) + run(900, None)})

    assert [dict(t.factors) for t in summary.treatments] == [{"streams": 1}, {"streams": UNSPECIFIED}]


def test_a_factor_that_is_set_holds_for_runs_that_do_not_tell_it(tmp_path: Path) -> None:
    set_: dict[str, Level] = {"streams": 1, "mtu": 9000, "label_host": "esx, 7 .. 8"}
    (treatment,) = imported(tmp_path / "a.vnb", {"a.log": run(800) + run(900, None)}, set_).treatments

    assert dict(treatment.factors) == set_


def test_a_factor_that_contradicts_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=r"a\.log:1: this run tells streams = 1"):
        gathered({"a.log": run(800)}, {"streams": 4})


def test_a_warm_up_that_the_tool_left_in_is_cut_and_said(tmp_path: Path) -> None:
    log = "".join(run(720, sizes=(*RISING, *(100 + (n + k) % 3 for n in range(27)))) for k in range(6))

    (treatment,) = imported(tmp_path / "a.vnb", {"a.log": log}).treatments
    assert all(3 <= point.warmup_s < 30 for point in treatment.points)
    assert treatment.metrics["goodput_bps"].value == pytest.approx(8 * 101e6, rel=0.01)
    assert "a warm-up of" in treatment.notes[0]


def test_where_the_tool_omitted_the_warm_up_its_own_figure_stands(tmp_path: Path) -> None:
    log = "".join(
        run(805 + k, sizes=(*RISING, *(100 + n % 3 for n in range(27))), omitted=3) for k in range(6)
    )

    (treatment,) = imported(tmp_path / "a.vnb", {"a.log": log}).treatments
    assert [point.warmup_s for point in treatment.points] == [3] * 6
    assert treatment.metrics["goodput_bps"].value == pytest.approx(807.5e6)
    assert not treatment.notes


def test_rounding_widens_the_interval(tmp_path: Path) -> None:
    log = "".join(run(rate) for rate in (800, 801, 802, 803, 804, 805, 806))

    estimate = imported(tmp_path / "a.vnb", {"a.log": log}).treatments[0].metrics["goodput_bps"]
    narrow = [800e6, 806e6]
    assert estimate.low is not None
    assert estimate.high is not None
    assert estimate.low < narrow[0] + 1e6
    assert estimate.high - estimate.low > 0.5e6
    alike = imported(tmp_path / "a.vnb", {"a.log": run(800) * 7}).treatments[0].metrics["goodput_bps"]
    assert (alike.low, alike.high) == (799.5e6, 800.5e6)


def test_what_both_ends_tell_is_one_trial(tmp_path: Path) -> None:
    client = "".join(run(rate, by="sender") for rate in (800, 900, 1000))
    server = "".join(run(rate - 5, None, by="receiver") for rate in (800, 900, 1000))

    (treatment,) = imported(tmp_path / "a.vnb", {"client.log": client, "server.log": server}).treatments
    assert [point.values["goodput_bps"] for point in treatment.points] == [795e6, 895e6, 995e6]
    assert dict(treatment.factors) == {"streams": 1}
    assert "client.log line 1" in treatment.points[0].notes[0]


def test_ends_that_do_not_agree_are_trials_apart_and_that_is_said(tmp_path: Path) -> None:
    logs = {"client.log": run(800, by="sender"), "server.log": run(300, by="receiver")}

    summary = imported(tmp_path / "a.vnb", logs)
    assert summary.treatments[0].trial_count == 2
    assert any("as their senders tell them" in each for each in summary.warnings)


def test_runs_of_two_tools_are_not_of_one_treatment(tmp_path: Path) -> None:
    both = gathered({"a.log": run(800)})
    (item,) = parse_log(run(900).splitlines(), TOY)
    assert isinstance(item, Run)
    both.add_item("b.log", replace(item, tool="other"))
    write_results(both, "tcp_stream", tmp_path / "a.vnb", "Two tools")

    file = ResultsFile.open_to_read(tmp_path / "a.vnb")
    assert [t.factors[TOOL_LABEL] for t in file.treatments()] == ["toy", "other"]
    file.close()


def test_a_run_cut_off_is_no_trial_and_is_kept_with_its_line(tmp_path: Path) -> None:
    summary = imported(tmp_path / "a.vnb", {"a.log": run(800) + "toy 1.2 streams=1\n  1.0 80 MB\n"})

    assert summary.treatments[0].trial_count == 1
    read = summary.facts["imported"]["read"]
    assert isinstance(read, dict)
    assert (read["runs"], read["not_whole"]) == (2, 1)
    assert (read["not_read"][0]["first_line"], read["not_read"][0]["why"]) == (3, "cut off")


def test_levels_that_no_study_can_have_are_a_damaged_run() -> None:
    found = gathered({"a.log": run(800, 99_999) + run(800)})

    assert (found.run_count, found.unreadable_count) == (1, 1)


def test_a_copy_of_a_log_adds_no_trials() -> None:
    log = run(800) + run(820) + "toy 1.2 streams=1\n  1.0 80 MB\n"

    found = gathered({"a.log": log, "b.log": run(900), "copy.log": log})
    assert (found.run_count, found.failure_counts.total(), len(found.run_summaries("tcp_stream"))) == (3, 1, 3)
    assert found.duplicate_logs == {"copy.log": "a.log"}
    assert found.metric_counts("tcp_stream")["goodput_bps"] == 3


def test_a_workload_has_a_file_of_its_own(tmp_path: Path) -> None:
    log = run(800) + "toy 1.2 udp\n= 90 Mbit/s 10.0 s\n"

    summary = imported(tmp_path / "a.vnb", {"a.log": log}, workload="udp_stream")
    assert summary.deciding_metric == "goodput_bps"
    assert summary.treatments[0].trial_count == 1


def test_a_file_that_cannot_be_made_whole_is_not_there(tmp_path: Path) -> None:
    found = gathered({"a.log": run(800)})
    found._db.execute("UPDATE run SET run = x'00'")

    with pytest.raises(zlib.error):
        write_results(found, "tcp_stream", tmp_path / "a.vnb", "title")
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_import_left_is_no_results_file_and_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / "a.vnb.part").write_text("half of it")

    imported(tmp_path / "a.vnb", {"a.log": run(800)})
    assert [path.name for path in tmp_path.iterdir()] == ["a.vnb"]


def test_very_many_intervals_are_joined_into_samples(tmp_path: Path) -> None:
    log = run(800, sizes=tuple(100 + n % 7 for n in range(5000)))

    (point,) = imported(tmp_path / "a.vnb", {"a.log": log}).treatments[0].points
    assert len(point.time_series) == 1667
    assert sum(point.time_series) / 1667 == pytest.approx(8 * 103e6, rel=1e-3)


def test_imports_compare_by_the_factors_that_both_name(tmp_path: Path) -> None:
    before = imported(tmp_path / "a.vnb", {"a.log": "".join(run(800 + k) for k in range(8))})
    log = "".join(run(1600 + k) for k in range(8))
    after = imported(tmp_path / "b.vnb", {"b.log": log}, {"mtu": 9000})

    found = compare_campaigns(before, after)
    assert len(found.changes) == 1
    assert found.changes[0].ratio.value == pytest.approx(2, rel=0.01)
    assert found.changes[0].is_shown
    assert [each.after for each in found.environment if "mtu" in each.name] == ["9000"]
    assert "1.2 from a.log" in found.imported[0]


def test_labels_are_any_text() -> None:
    assert parse_level("label_esxi", "6.7u3, build 14320388") == "6.7u3, build 14320388"
    with pytest.raises(BenchError, match="not a label"):
        parse_level("label_a-b", "x")
