"""The corpus as data, and how explanations are scored: what holds before any run is made."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from click.testing import CliRunner

from bench.corpus.__main__ import main
from bench.corpus.controls import Conditions
from bench.corpus.disturb import settings
from bench.corpus.disturb.quota import quota
from bench.corpus.families import RECIPES
from bench.corpus.proof import Seen, all_of, counts, differs, falls, has_rest, tells
from bench.corpus.recipe import OTHER, STRENGTHS, Dose
from bench.corpus.runs import RECIPE, Run, chosen, runs_of
from bench.corpus.scene import Scene
from bench.corpus.score import AIMS, Judged, Named, Share, confusion, share
from bench.corpus.split import DEVELOPING, HELD_OUT, PARTS
from bench.corpus.store import CONTROLS, MANIFEST, Labelled, Store, labelled
from bench.explain import RESULTS, a_line_each, report, save
from vnetbench.explain.limits import NO_LIMIT, UNEXPLAINED
from vnetbench.explain.rules import load_rules
from vnetbench.study.file.load import parse_study

pytestmark = pytest.mark.pure

RUNS = runs_of(RECIPES)
FIRST = AIMS[0]
NOW = Conditions("an agent", "a start", 1e9)


def run(
    named: str, *causes: str, certainty: str = "likely", is_wrong: bool = True, is_fault: bool = True
) -> Judged:
    label = {"file": "x.vnb", "causes": list(causes), "accepted": [], "is_wrong": is_wrong}
    return Judged(Labelled(Path("x.vnb"), label), (Named(named, certainty, is_fault),))


def test_the_corpus_has_as_much_as_was_promised() -> None:
    assert len(RUNS) >= 400
    assert len({cause for each in RUNS for cause in each.recipe.causes}) >= 25
    assert sum(not each.recipe.is_wrong for each in RUNS) >= 60
    assert sum(len(each.recipe.causes) == 2 for each in RUNS) >= 30


def test_every_cause_is_one_that_the_rules_know_and_has_every_strength() -> None:
    known = {*load_rules(), NO_LIMIT}
    assert {cause for each in RUNS for cause in each.recipe.causes} <= known
    assert all(len(recipe.doses) == len(STRENGTHS) for recipe in RECIPES)


def test_every_run_asks_a_study_that_is_one() -> None:
    for each in RUNS:
        for text in {each.study(), each.control()}:
            assert len(parse_study(text, None).factors) >= 1


def test_a_run_has_a_name_of_its_own_that_says_nothing_of_its_cause() -> None:
    names = Counter(each.name for each in RUNS)
    assert set(names.values()) == {1}
    heads = [(each, f"{each.name} {each.study().partition('[testbed]')[0]}") for each in RUNS]
    assert not any(cause in head for each, head in heads for cause in each.recipe.causes)


def test_whole_testbeds_and_one_strength_are_held_out_and_the_rest_is_not() -> None:
    held_out = {each.name for each in RUNS if each.topology in ("jumbo6", "vmxnet3")}
    held_out |= {each.name for each in RUNS if each.strength == "other"}
    parts = {wanted: {each.name for each in RUNS if each.part == wanted} for wanted in PARTS}
    assert parts == {"held-out": held_out, "developing": {each.name for each in RUNS} - held_out}
    assert parts["held-out"].isdisjoint(parts["developing"])
    assert min(map(len, parts.values())) > 150


def test_every_cause_is_in_both_parts() -> None:
    for wanted in (DEVELOPING, HELD_OUT):
        found = {cause for each in RUNS if each.part == wanted for cause in each.recipe.causes}
        assert found == {cause for each in RUNS for cause in each.recipe.causes}


def test_runs_are_chosen_by_what_their_label_says() -> None:
    found = chosen(RUNS, {"cause": "pacing", "topology": "bridge", "part": DEVELOPING})
    assert {each.strength for each in found} == {"low", "middle", "high"}


@pytest.mark.parametrize("only", ["topologie=bridge", "pacing"])
def test_what_runs_cannot_be_chosen_by_is_told(only: str) -> None:
    said = CliRunner().invoke(main, ["--list", "--only", only])
    assert said.exit_code == 1 and "WHAT is one of cause, topology" in said.output


def test_a_cause_that_did_nothing_is_told() -> None:
    run, control = Seen(90.0, {"host softnet_dropped": 30.0}, {"throttled_s": 0.5}, 3.0), Seen(100.0)
    assert falls(0.1)(run, control) == ""
    assert "90% of the speed" in falls(0.2)(run, control)
    assert counts("host softnet_dropped", 10)(run, control) == ""
    assert "10 a second, not 11" in counts("host softnet_dropped", 11)(run, control)
    assert "throttled_s" in all_of(falls(0.1), tells("throttled_s", 1.0))(run, control)


def test_an_end_that_has_no_rest_is_told() -> None:
    run = Seen(90.0, busy={"CPU 0": 0.8})
    assert has_rest("CPU 0", 0.15)(run, run) == ""
    assert "0.80 of its time" in has_rest("CPU 0", 0.25)(run, run)


def test_two_modes_are_there_where_the_trials_that_were_disturbed_differ() -> None:
    told = {"trial 1 disturbed": 1.0, "trial 3 disturbed": 1.0}
    apart = Seen(75.0, told=told, speeds=(100.0, 50.0, 98.0, 52.0))
    alike = Seen(75.0, told=told, speeds=(100.0, 99.0, 50.0, 52.0))
    assert differs(0.25, "trial {} disturbed")(apart, apart) == ""
    assert differs(0.25, "trial {} disturbed")(alike, alike) != ""


def test_the_interval_of_a_share_is_wilsons() -> None:
    # Brown, Cai and DasGupta, Statistical Science 16(2), 2001, section 3.1.1: centre and width by hand.
    low, high = Share(90, 100).interval()
    assert (round(low, 4), round(high, 4)) == (0.8256, 0.9448)
    assert Share(0, 20).interval()[0] == 0
    assert Share(0, 0).interval() == (0, 1)


def test_an_aim_is_met_or_missed_only_with_its_whole_interval() -> None:
    assert FIRST.verdict(Share(300, 300)) == "met"
    assert FIRST.verdict(Share(92, 100)) == "met by the share"
    assert FIRST.verdict(Share(85, 100)) == "missed by the share"
    assert FIRST.verdict(Share(50, 100)) == "missed"


def test_what_is_named_is_held_against_what_was_put_there() -> None:
    right, wrong = run("pacing", "pacing"), run("pacing", "drift", certainty="very likely")
    both = run("drift", "pacing", "drift")
    assert [each.has(1) for each in (right, wrong, both)] == [True, False, True]
    assert not both.has_all(2)
    assert [each.is_confidently_wrong for each in (right, wrong)] == [False, True]
    assert share([right, wrong], lambda each: each.has(1)) == Share(1, 2)
    # Of two causes at once the first line does not tell.
    assert FIRST.share([right, wrong, both]) == Share(1, 2)


def test_a_fault_that_is_named_where_nothing_is_wrong_is_a_false_alarm() -> None:
    alarm = run("overflow", "nothing", is_wrong=False)
    limit = run("sender_cpu", "nothing", is_wrong=False, is_fault=False)
    assert [each.is_false_alarm for each in (alarm, limit, run("overflow", "pacing"))] == [True, False, False]
    assert AIMS[-1].share([alarm, limit, run("overflow", "pacing")]) == Share(1, 2)


def test_runs_with_nothing_wrong_and_other_names_that_are_accepted_are_told_apart() -> None:
    def made(judged: Judged, **label: object) -> Judged:
        label = {**judged.run.label, "topology": "bridge", "strength": OTHER, "says": "", **label}
        return replace(judged, run=replace(judged.run, label=label))

    runs = [
        made(run("drift", "drift")),
        made(run("link_full", "drift"), accepted=["link_full"]),
        made(run("nothing", "nothing", is_wrong=False)),
    ]
    gone = [{"part": HELD_OUT, "causes": ["overflow"]}, {"part": DEVELOPING, "causes": ["drift"]}]
    told = [[cell.strip() for cell in line.split("|")] for line in report({HELD_OUT: runs}, gone)]
    firsts = [(cells[1], cells[2].split(" ")[0], cells[3]) for cells in told if len(cells) == 5]
    assert ("right cause named first", "100.0%", "2") in firsts
    assert ("by its own name first", "50.0%", "2") in firsts
    (line,) = (cells[0] for cells in told if "discarded" in cells[0])
    assert line.endswith(": overflow 1.")


def test_faults_that_are_named_further_down_where_nothing_is_wrong_are_told_in_a_line() -> None:
    def made(*further: Named, is_wrong: bool = False) -> Judged:
        judged = run("nothing", "nothing", is_wrong=is_wrong, is_fault=False)
        label = {**judged.run.label, "topology": "bridge", "strength": OTHER, "says": ""}
        return Judged(replace(judged.run, label=label), (*judged.named, *further))

    overflow, drift = Named("overflow", "possible", is_fault=True), Named("drift", "likely", is_fault=True)
    limit = Named("sender_cpu", "likely")
    runs = [made(overflow, drift), made(overflow, limit), made(limit), made(drift, is_wrong=True)]
    told = [line.strip() for line in report({HELD_OUT: runs})]
    assert (
        "Of 3 runs where nothing is wrong 2 name a fault after the first name: "
        "overflow (possible) 2, drift (likely) 1."
    ) in told
    assert "Of 1 runs where nothing is wrong 0 name a fault after the first name." in [
        line.strip() for line in report({HELD_OUT: runs[2:3]})
    ]


def test_false_alarms_can_be_told_from_the_results(tmp_path: Path) -> None:
    save(tmp_path, "", {HELD_OUT: [run("overflow", "nothing", is_wrong=False)]})
    (path,) = tmp_path.glob("*.json")
    (found,) = json.loads(path.read_text())
    assert found["named"] == [["overflow", "likely", True]]


def test_confusion_has_what_was_named_rightly_on_its_diagonal() -> None:
    unexplained = Judged(run("x", "drift").run, ())
    put, given, found = confusion([run("pacing", "pacing"), run("pacing", "drift"), unexplained])
    assert put == ["drift", "pacing"]
    assert given == ["pacing", UNEXPLAINED]
    assert found == {("pacing", "pacing"): 1, ("drift", "pacing"): 1, ("drift", UNEXPLAINED): 1}


def test_a_store_knows_its_runs_and_what_was_discarded_and_bears_a_line_cut_short(tmp_path: Path) -> None:
    store, (kept, thrown) = Store(tmp_path), RUNS[:2]
    store.at_work.write_bytes(b"results")
    store.keep(kept, Seen(1.0), Seen(2.0))
    store.discard(thrown, "it did nothing")
    manifest = tmp_path / kept.part / MANIFEST
    manifest.write_text(manifest.read_text() + '{"file": "cut')
    assert Store(tmp_path).known() == {kept.name, thrown.name}
    (found,) = labelled(tmp_path / kept.part)
    assert found.path.read_bytes() == b"results"
    assert found.causes == kept.recipe.causes
    assert json.loads(manifest.read_text().splitlines()[0])["verified"]["control_speed"] == 2
    store.forget_discarded([thrown])
    assert store.known() == {kept.name}


def test_a_run_that_is_kept_after_a_line_cut_short_is_not_lost_with_it(tmp_path: Path) -> None:
    store, (cut, kept) = Store(tmp_path), [each for each in RUNS if each.part == DEVELOPING][:2]
    for each in (cut, kept):
        store.at_work.write_bytes(b"results")
        store.keep(each, Seen(1.0), Seen(2.0))
        if each is cut:
            manifest = tmp_path / each.part / MANIFEST
            manifest.write_bytes(manifest.read_bytes()[:-20])
    assert store.known() == {kept.name}


def test_who_is_ended_while_it_writes_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    store.keep_control("a study", 5.0, NOW)
    store.at_work.write_bytes(b"results")
    store.keep(RUNS[0], Seen(1.0), Seen(2.0))

    def ended(path: Path, text: str) -> int:
        path.write_bytes(text.encode()[:1])
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_text", ended)
    with pytest.raises(KeyboardInterrupt):
        store.keep_control("another", 6.0, NOW)
    with pytest.raises(KeyboardInterrupt):
        store.drop_others([])
    assert Store(tmp_path).control("a study", NOW) == 5.0
    assert Store(tmp_path).known() == {RUNS[0].name}


def test_a_run_that_is_declared_otherwise_since_it_was_made_is_made_again(tmp_path: Path) -> None:
    store, (same, other, gone) = Store(tmp_path), RUNS[:3]
    for each in (same, other, gone):
        store.at_work.write_bytes(b"results")
        store.keep(each, Seen(1.0), Seen(2.0))
    changed = replace(other, recipe=replace(other.recipe, doses=(Dose("stronger"),) * len(STRENGTHS)))
    assert changed.name == other.name
    store.drop_others([same, changed])
    assert store.known() == {same.name}
    assert [path.stem for path in tmp_path.glob("*/*.vnb")] == [same.name]


def made_otherwise(run: Run) -> list[Run]:
    """The same run by its name and what its label says, of recipes that were changed."""
    recipe = run.recipe
    doses = tuple(replace(dose, disturb=(quota("a1", 0.3),)) for dose in recipe.doses)
    changed = (
        replace(recipe, pace=replace(recipe.pace, trials=5)),
        replace(recipe, control={**recipe.control, "mtu": 1400}),
        replace(recipe, ground=(quota("a1", 0.5),)),
        replace(recipe, doses=doses),
    )
    return [replace(run, recipe=each) for each in changed]


def test_a_run_is_made_again_whose_study_or_disturbance_was_changed(tmp_path: Path) -> None:
    kept, thrown = RUNS[:2]
    for place, changed in enumerate(zip(made_otherwise(kept), made_otherwise(thrown), strict=True)):
        store = Store(tmp_path / str(place))
        store.at_work.write_bytes(b"results")
        store.keep(kept, Seen(1.0), Seen(2.0))
        store.discard(thrown, "it did nothing")
        store.drop_others(RUNS)
        assert store.known() == {kept.name, thrown.name}
        store.drop_others(changed)
        assert store.known() == set()


def test_a_run_that_does_not_tell_how_it_was_made_stays(tmp_path: Path) -> None:
    store, kept = Store(tmp_path), RUNS[0]
    store.at_work.write_bytes(b"results")
    store.keep(kept, Seen(1.0), Seen(2.0))
    manifest = tmp_path / kept.part / MANIFEST
    line = json.loads(manifest.read_text())
    del line[RECIPE]
    manifest.write_text(json.dumps(line) + "\n")
    store.drop_others([made_otherwise(kept)[0]])
    assert store.known() == {kept.name}


def test_recipes_are_spelled_alike_in_each_process() -> None:
    program = "from tests.bench.test_corpus import RUNS; print([each.label() for each in RUNS])"
    said = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed}, cwd=Path(__file__).parents[2],
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in "12"
    }  # fmt: skip
    assert said == {f"{[each.label() for each in RUNS]}\n"}


def test_a_control_is_taken_for_its_study_while_the_machine_is_as_it_was(tmp_path: Path) -> None:
    Store(tmp_path).keep_control("a study", 5.0, NOW)
    store = Store(tmp_path)
    assert store.control("a study", replace(NOW, at_s=NOW.at_s + 1700)) == 5.0
    assert store.control("another", NOW) is None
    for otherwise in (
        replace(NOW, agent="another"),
        replace(NOW, boot="another"),
        replace(NOW, at_s=NOW.at_s + 1900),
        replace(NOW, at_s=NOW.at_s - 10),
    ):
        assert store.control("a study", otherwise) is None


def test_a_control_of_nobody_knows_when_is_measured_again(tmp_path: Path) -> None:
    (tmp_path / CONTROLS).write_text('{"a study": 5.0}')
    store = Store(tmp_path)
    assert store.control("a study", NOW) is None
    store.keep_control("a study", 6.0, NOW)
    assert store.control("a study", NOW) == 6.0


def test_results_have_a_line_for_each_run_and_those_that_are_kept_too() -> None:
    runs: list[dict[str, object]] = [
        {"file": "x.vnb", "causes": ["drift"], "named": [["drift", "likely"]]},
        {"file": "y.vnb"},
    ]
    text = a_line_each(runs)
    assert json.loads(text) == runs and len(text.splitlines()) == 2 + len(runs)
    kept = sorted(RESULTS.glob("*-explain.json"))
    assert kept
    for path in kept:
        assert path.read_text() == a_line_each(json.loads(path.read_text())), path.name


def test_what_a_killed_maker_changed_of_the_machine_is_put_back_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine, left = tmp_path / "sys", tmp_path / "left.json"
    backlog, boot = machine / "net/core/netdev_max_backlog", machine / "kernel/random/boot_id"
    for path, value in ((backlog, "1000\n"), (boot, "first\n")):
        path.parent.mkdir(parents=True)
        path.write_text(value)
    monkeypatch.setattr(settings, "_SYS", machine)
    monkeypatch.setattr(settings, "LEFT", left)
    disturb = settings.machine_settings({"net/core/netdev_max_backlog": "1"})
    assert settings.put_back_left() == {}

    with disturb(cast(Scene, None)):
        killed = left.read_text()
        assert backlog.read_text() == "1"
    assert backlog.read_text() == "1000" and not left.exists()

    backlog.write_text("1")
    left.write_text(killed)
    assert settings.put_back_left() == {"net/core/netdev_max_backlog": "1000"}
    assert backlog.read_text() == "1000" and not left.exists()

    # After another start of the machine nothing is left of it.
    backlog.write_text("2000")
    boot.write_text("second")
    left.write_text(killed)
    assert settings.put_back_left() == {} and backlog.read_text() == "2000"
