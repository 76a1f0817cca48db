"""The declared runs of the corpus, its storage, and the scores of explanations."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.corpus.__main__ import main
from bench.corpus.controls import Conditions
from bench.corpus.disturbances.cpu_quota import vm_cpu_quota
from bench.corpus.effect_checks import (
    RunMeasurement,
    require_all,
    require_counter_rate,
    require_cpu_idle,
    require_disturbance_value,
    require_mode_difference,
    require_slowdown,
)
from bench.corpus.runs import RECIPE_KEY, Run, filter_runs, plan_runs
from bench.corpus.scenario import OTHER, STRENGTH_NAMES, CauseStrength
from bench.corpus.scenarios import SCENARIOS
from bench.corpus.scoring import AIMS, NamedCause, Proportion, ScoredRun, count_confusions, count_runs
from bench.corpus.split import DEVELOPING, HELD_OUT, PARTS
from bench.corpus.store import CONTROLS, MANIFEST, CorpusStore, LabelledRun, read_labelled_runs
from bench.explain import RESULTS, format_json_lines, format_report, save_results
from vnetbench.explain.limits import NO_LIMIT_CAUSE_NAME, UNEXPLAINED_CAUSE_NAME
from vnetbench.explain.rules import load_rules
from vnetbench.study.file.load import parse_study

pytestmark = pytest.mark.pure

RUNS = plan_runs(SCENARIOS)
FIRST = AIMS[0]
NOW = Conditions("an agent", "a boot", 1e9)


def make_scored_run(
    named_cause: str, *causes: str, confidence: str = "likely", is_wrong: bool = True, is_fault: bool = True
) -> ScoredRun:
    label = {"file": "x.vnb", "causes": list(causes), "accepted": [], "is_wrong": is_wrong}
    return ScoredRun(LabelledRun(Path("x.vnb"), label), (NamedCause(named_cause, confidence, is_fault),))


def test_the_corpus_has_its_documented_size() -> None:
    assert len(RUNS) >= 400
    assert len({cause for each in RUNS for cause in each.scenario.causes}) >= 25
    assert sum(not each.scenario.has_fault for each in RUNS) >= 60
    assert sum(len(each.scenario.causes) == 2 for each in RUNS) >= 30


def test_the_rules_know_every_cause_and_every_scenario_has_all_strengths() -> None:
    known = {*load_rules(), NO_LIMIT_CAUSE_NAME}
    assert {cause for each in RUNS for cause in each.scenario.causes} <= known
    assert all(len(scenario.strengths) == len(STRENGTH_NAMES) for scenario in SCENARIOS)


def test_every_run_has_a_valid_study() -> None:
    for each in RUNS:
        for text in {each.study_text(), each.control_study_text()}:
            assert len(parse_study(text, None).factors) >= 1


def test_run_names_are_unique_and_do_not_reveal_the_cause() -> None:
    names = Counter(each.name for each in RUNS)
    assert set(names.values()) == {1}
    heads = [(each, f"{each.name} {each.study_text().partition('[testbed]')[0]}") for each in RUNS]
    assert not any(cause in head for each, head in heads for cause in each.scenario.causes)


def test_two_testbeds_and_one_strength_are_held_out() -> None:
    held_out = {each.name for each in RUNS if each.topology in ("jumbo6", "vmxnet3")}
    held_out |= {each.name for each in RUNS if each.strength == "other"}
    parts = {wanted: {each.name for each in RUNS if each.part == wanted} for wanted in PARTS}
    assert parts == {"held-out": held_out, "developing": {each.name for each in RUNS} - held_out}
    assert parts["held-out"].isdisjoint(parts["developing"])
    assert min(map(len, parts.values())) > 150


def test_every_cause_is_in_both_parts() -> None:
    for wanted in (DEVELOPING, HELD_OUT):
        causes = {cause for each in RUNS if each.part == wanted for cause in each.scenario.causes}
        assert causes == {cause for each in RUNS for cause in each.scenario.causes}


def test_runs_are_selected_by_their_labels() -> None:
    selected = filter_runs(RUNS, {"cause": "pacing", "topology": "bridge", "part": DEVELOPING})
    assert {each.strength for each in selected} == {"low", "middle", "high"}


@pytest.mark.parametrize("only", ["topologie=bridge", "pacing"])
def test_an_invalid_filter_is_an_error(only: str) -> None:
    result = CliRunner().invoke(main, ["--list", "--only", only])
    assert result.exit_code == 1 and "KEY is one of cause, topology" in result.output


def test_a_cause_without_an_effect_is_reported() -> None:
    run, control = (
        RunMeasurement(90.0, {"host softnet_dropped": 30.0}, {"throttled_s": 0.5}, 3.0),
        RunMeasurement(100.0),
    )
    assert require_slowdown(0.1)(run, control) == ""
    assert "90% of the speed" in require_slowdown(0.2)(run, control)
    assert require_counter_rate("host softnet_dropped", 10)(run, control) == ""
    assert "10 per second, not at least 11" in require_counter_rate("host softnet_dropped", 11)(run, control)
    assert "throttled_s" in require_all(require_slowdown(0.1), require_disturbance_value("throttled_s", 1.0))(
        run, control
    )


def test_a_busy_cpu_is_reported() -> None:
    run = RunMeasurement(90.0, cpu_use={"CPU 0": 0.8})
    assert require_cpu_idle("CPU 0", 0.15)(run, run) == ""
    assert "80% busy" in require_cpu_idle("CPU 0", 0.25)(run, run)


def test_two_modes_require_a_difference_of_the_disturbed_trials() -> None:
    marks = {"trial 1 disturbed": 1.0, "trial 3 disturbed": 1.0}
    apart = RunMeasurement(75.0, disturbance_values=marks, speeds=(100.0, 50.0, 98.0, 52.0))
    alike = RunMeasurement(75.0, disturbance_values=marks, speeds=(100.0, 99.0, 50.0, 52.0))
    assert require_mode_difference(0.25, "trial {} disturbed")(apart, apart) == ""
    assert require_mode_difference(0.25, "trial {} disturbed")(alike, alike) != ""


def test_a_proportion_has_a_wilson_interval() -> None:
    # Brown, Cai and DasGupta, Statistical Science 16(2), 2001, section 3.1.1: centre and width by hand.
    low, high = Proportion(90, 100).interval()
    assert (round(low, 4), round(high, 4)) == (0.8256, 0.9448)
    assert Proportion(0, 20).interval()[0] == 0
    assert Proportion(0, 0).interval() == (0, 1)


def test_an_aim_is_met_or_missed_by_the_whole_interval() -> None:
    assert FIRST.verdict(Proportion(300, 300)) == "met"
    assert FIRST.verdict(Proportion(92, 100)) == "met by the proportion"
    assert FIRST.verdict(Proportion(85, 100)) == "missed by the proportion"
    assert FIRST.verdict(Proportion(50, 100)) == "missed"


def test_named_causes_are_compared_with_the_produced_causes() -> None:
    right, wrong = (
        make_scored_run("pacing", "pacing"),
        make_scored_run("pacing", "drift", confidence="very likely"),
    )
    both = make_scored_run("drift", "pacing", "drift")
    assert [each.names_accepted_cause(1) for each in (right, wrong, both)] == [True, False, True]
    assert not both.names_all_causes(2)
    assert [each.is_confidently_wrong for each in (right, wrong)] == [False, True]
    assert count_runs([right, wrong], lambda each: each.names_accepted_cause(1)) == Proportion(1, 2)
    # The first aim applies to runs with one cause only.
    assert FIRST.measure([right, wrong, both]) == Proportion(1, 2)


def test_a_fault_named_in_a_run_without_a_fault_is_a_false_alarm() -> None:
    alarm = make_scored_run("overflow", "nothing", is_wrong=False)
    limit = make_scored_run("sender_cpu", "nothing", is_wrong=False, is_fault=False)
    assert [each.is_false_alarm for each in (alarm, limit, make_scored_run("overflow", "pacing"))] == [
        True,
        False,
        False,
    ]
    assert AIMS[-1].measure([alarm, limit, make_scored_run("overflow", "pacing")]) == Proportion(1, 2)


def test_strict_metrics_exclude_runs_without_a_fault_and_other_accepted_names() -> None:
    def relabel(scored_run: ScoredRun, **label: object) -> ScoredRun:
        label = {**scored_run.run.label, "topology": "bridge", "strength": OTHER, "says": "", **label}
        return replace(scored_run, run=replace(scored_run.run, label=label))

    runs = [
        relabel(make_scored_run("drift", "drift")),
        relabel(make_scored_run("link_full", "drift"), accepted=["link_full"]),
        relabel(make_scored_run("nothing", "nothing", is_wrong=False)),
    ]
    removed = [{"part": HELD_OUT, "causes": ["overflow"]}, {"part": DEVELOPING, "causes": ["drift"]}]
    rows = [[cell.strip() for cell in line.split("|")] for line in format_report({HELD_OUT: runs}, removed)]
    firsts = [(cells[1], cells[2].split(" ")[0], cells[3]) for cells in rows if len(cells) == 5]
    assert ("right cause named first", "100.0%", "2") in firsts
    assert ("by its own name first", "50.0%", "2") in firsts
    (line,) = (cells[0] for cells in rows if "Discarded" in cells[0])
    assert line.endswith(": overflow 1.")


def test_later_faults_in_runs_without_a_fault_are_summarized() -> None:
    def relabel(*further: NamedCause, is_wrong: bool = False) -> ScoredRun:
        scored_run = make_scored_run("nothing", "nothing", is_wrong=is_wrong, is_fault=False)
        label = {**scored_run.run.label, "topology": "bridge", "strength": OTHER, "says": ""}
        return ScoredRun(replace(scored_run.run, label=label), (*scored_run.named_causes, *further))

    overflow, drift = (
        NamedCause("overflow", "possible", is_fault=True),
        NamedCause("drift", "likely", is_fault=True),
    )
    limit = NamedCause("sender_cpu", "likely")
    runs = [relabel(overflow, drift), relabel(overflow, limit), relabel(limit), relabel(drift, is_wrong=True)]
    lines = [line.strip() for line in format_report({HELD_OUT: runs})]
    assert (
        "2 of 3 runs without a fault name a fault after the first cause: "
        "overflow (possible) 2, drift (likely) 1."
    ) in lines
    assert "0 of 1 runs without a fault name a fault after the first cause." in [
        line.strip() for line in format_report({HELD_OUT: runs[2:3]})
    ]


def test_stored_results_show_false_alarms(tmp_path: Path) -> None:
    save_results(tmp_path, "", {HELD_OUT: [make_scored_run("overflow", "nothing", is_wrong=False)]})
    (path,) = tmp_path.glob("*.json")
    (run,) = json.loads(path.read_text())
    assert run["named"] == [["overflow", "likely", True]]


def test_the_confusion_matrix_has_correct_names_on_its_diagonal() -> None:
    unexplained = ScoredRun(make_scored_run("x", "drift").run, ())
    produced, named, counts = count_confusions(
        [make_scored_run("pacing", "pacing"), make_scored_run("pacing", "drift"), unexplained]
    )
    assert produced == ["drift", "pacing"]
    assert named == ["pacing", UNEXPLAINED_CAUSE_NAME]
    assert counts == {("pacing", "pacing"): 1, ("drift", "pacing"): 1, ("drift", UNEXPLAINED_CAUSE_NAME): 1}


def test_a_store_knows_stored_and_discarded_runs_despite_an_incomplete_line(tmp_path: Path) -> None:
    store, (stored, discarded) = CorpusStore(tmp_path), RUNS[:2]
    store.work_path.write_bytes(b"results")
    store.keep(stored, RunMeasurement(1.0), RunMeasurement(2.0))
    store.discard(discarded, "no effect")
    manifest = tmp_path / stored.part / MANIFEST
    manifest.write_text(manifest.read_text() + '{"file": "cut')
    assert CorpusStore(tmp_path).known_names() == {stored.name, discarded.name}
    (labelled,) = read_labelled_runs(tmp_path / stored.part)
    assert labelled.path.read_bytes() == b"results"
    assert labelled.causes == stored.scenario.causes
    assert json.loads(manifest.read_text().splitlines()[0])["verified"]["control_speed"] == 2
    store.forget_discarded([discarded])
    assert store.known_names() == {stored.name}


def test_a_run_stored_after_an_incomplete_line_is_not_lost(tmp_path: Path) -> None:
    store, (cut, stored) = CorpusStore(tmp_path), [each for each in RUNS if each.part == DEVELOPING][:2]
    for each in (cut, stored):
        store.work_path.write_bytes(b"results")
        store.keep(each, RunMeasurement(1.0), RunMeasurement(2.0))
        if each is cut:
            manifest = tmp_path / each.part / MANIFEST
            manifest.write_bytes(manifest.read_bytes()[:-20])
    assert store.known_names() == {stored.name}


def test_an_interrupted_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = CorpusStore(tmp_path)
    store.save_control_speed("a study", 5.0, NOW)
    store.work_path.write_bytes(b"results")
    store.keep(RUNS[0], RunMeasurement(1.0), RunMeasurement(2.0))

    def interrupted_write(path: Path, text: str) -> int:
        path.write_bytes(text.encode()[:1])
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_text", interrupted_write)
    with pytest.raises(KeyboardInterrupt):
        store.save_control_speed("another", 6.0, NOW)
    with pytest.raises(KeyboardInterrupt):
        store.remove_outdated([])
    assert CorpusStore(tmp_path).find_control_speed("a study", NOW) == 5.0
    assert CorpusStore(tmp_path).known_names() == {RUNS[0].name}


def test_a_run_whose_declaration_changed_is_made_again(tmp_path: Path) -> None:
    store, (same, other, removed) = CorpusStore(tmp_path), RUNS[:3]
    for each in (same, other, removed):
        store.work_path.write_bytes(b"results")
        store.keep(each, RunMeasurement(1.0), RunMeasurement(2.0))
    changed = replace(
        other, scenario=replace(other.scenario, strengths=(CauseStrength("stronger"),) * len(STRENGTH_NAMES))
    )
    assert changed.name == other.name
    store.remove_outdated([same, changed])
    assert store.known_names() == {same.name}
    assert [path.stem for path in tmp_path.glob("*/*.vnb")] == [same.name]


def change_declaration(run: Run) -> list[Run]:
    """Return runs with the same name and label, from changed scenarios."""
    scenario = run.scenario
    strengths = tuple(
        replace(strength, disturbances=(vm_cpu_quota("a1", 0.3),)) for strength in scenario.strengths
    )
    changed = (
        replace(scenario, timing=replace(scenario.timing, trial_count=5)),
        replace(scenario, control_levels={**scenario.control_levels, "mtu": 1400}),
        replace(scenario, preparation=(vm_cpu_quota("a1", 0.5),)),
        replace(scenario, strengths=strengths),
    )
    return [replace(run, scenario=each) for each in changed]


def test_a_run_whose_study_or_disturbance_changed_is_made_again(tmp_path: Path) -> None:
    stored, discarded = RUNS[:2]
    for index, changed in enumerate(
        zip(change_declaration(stored), change_declaration(discarded), strict=True)
    ):
        store = CorpusStore(tmp_path / str(index))
        store.work_path.write_bytes(b"results")
        store.keep(stored, RunMeasurement(1.0), RunMeasurement(2.0))
        store.discard(discarded, "no effect")
        store.remove_outdated(RUNS)
        assert store.known_names() == {stored.name, discarded.name}
        store.remove_outdated(changed)
        assert store.known_names() == set()


def test_a_run_without_a_declaration_hash_stays(tmp_path: Path) -> None:
    store, stored = CorpusStore(tmp_path), RUNS[0]
    store.work_path.write_bytes(b"results")
    store.keep(stored, RunMeasurement(1.0), RunMeasurement(2.0))
    manifest = tmp_path / stored.part / MANIFEST
    line = json.loads(manifest.read_text())
    del line[RECIPE_KEY]
    manifest.write_text(json.dumps(line) + "\n")
    store.remove_outdated([change_declaration(stored)[0]])
    assert store.known_names() == {stored.name}


def test_labels_are_the_same_in_each_process() -> None:
    program = "from tests.bench.test_corpus import RUNS; print([each.label() for each in RUNS])"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed}, cwd=Path(__file__).parents[2],
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in "12"
    }  # fmt: skip
    assert outputs == {f"{[each.label() for each in RUNS]}\n"}


def test_a_control_is_reused_for_its_study_under_the_same_conditions(tmp_path: Path) -> None:
    CorpusStore(tmp_path).save_control_speed("a study", 5.0, NOW)
    store = CorpusStore(tmp_path)
    assert store.find_control_speed("a study", replace(NOW, at_s=NOW.at_s + 1700)) == 5.0
    assert store.find_control_speed("another", NOW) is None
    for other_conditions in (
        replace(NOW, agent="another"),
        replace(NOW, boot="another"),
        replace(NOW, at_s=NOW.at_s + 1900),
        replace(NOW, at_s=NOW.at_s - 10),
    ):
        assert store.find_control_speed("a study", other_conditions) is None


def test_a_control_without_conditions_is_measured_again(tmp_path: Path) -> None:
    (tmp_path / CONTROLS).write_text('{"a study": 5.0}')
    store = CorpusStore(tmp_path)
    assert store.find_control_speed("a study", NOW) is None
    store.save_control_speed("a study", 6.0, NOW)
    assert store.find_control_speed("a study", NOW) == 6.0


def test_results_have_one_line_per_run() -> None:
    runs: list[dict[str, object]] = [
        {"file": "x.vnb", "causes": ["drift"], "named": [["drift", "likely"]]},
        {"file": "y.vnb"},
    ]
    text = format_json_lines(runs)
    assert json.loads(text) == runs and len(text.splitlines()) == 2 + len(runs)
    paths = sorted(RESULTS.glob("*-explain.json"))
    assert paths
    for path in paths:
        assert path.read_text() == format_json_lines(json.loads(path.read_text())), path.name
