"""All runs of the corpus: each scenario on each of its testbeds in each strength."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bench.corpus import split
from bench.corpus.canonical_text import format_canonical
from bench.corpus.scenario import STRENGTH_NAMES, CauseStrength, Levels, RunTiming, Scenario
from bench.corpus.topologies import TOPOLOGIES, TestbedType
from vnetbench.study.labs import QEMU

STUDY_TEMPLATE = """\
title = "corpus"
question = "What limits this load?"
workload = "{workload}"

[testbed]
lab = "{lab}"
{uplink}{team}
[factors]
{factors}

[timing]
duration = "{duration_s:g} s"
interval = "{interval_ms:g} ms"

[precision]
min_trials = {trials}
max_trials = {trials}
"""
TEAM_TEMPLATE = """
[[testbed.team]]
links = 4
speed = "{speed}"
"""
FILTER_KEYS = ("cause", "topology", "part", "strength", "way", "file")
"""Keys of labels by which runs can be selected. `way` is the method that produces the cause."""
RECIPE_KEY = "recipe"
"""Key of the hash of a run's declaration in its label, which labels before 2026-11-22 do not have."""
CONTROL_TIMING = RunTiming(trial_count=2, duration_s=0.8)
"""Timing of the load without its cause, which is only a reference."""
LAB_SETUP_S = {QEMU: 0.6}
"""Time of a trial without its load, by lab, if it is not DEFAULT_SETUP_S."""
DEFAULT_SETUP_S = 0.15
TESTBED_SETUP_S = 0.4
"""Time for a new testbed and a results file."""


@dataclass(frozen=True)
class Run:
    """A run, which makes one results file."""

    scenario: Scenario
    topology: str
    strength: str
    repeat_index: int = 0

    @property
    def cause_strength(self) -> CauseStrength:
        """The strength of the cause."""
        return self.scenario.strengths[STRENGTH_NAMES.index(self.strength)]

    @property
    def name(self) -> str:
        """Name of the results file, which does not reveal the cause or depend on other runs."""
        declaration = "|".join(
            (
                *self.scenario.causes,
                self.scenario.method,
                self.topology,
                self.strength,
                str(self.repeat_index),
            )
        )
        return hashlib.sha256(declaration.encode()).hexdigest()[:12]

    @property
    def seed(self) -> int:
        """Seed of the plan and of the disturbances."""
        return int(self.name[:8], 16)

    @property
    def part(self) -> str:
        """Part of the corpus; see `split`."""
        return split.choose_part(self.topology, self.strength)

    @property
    def testbed_type(self) -> TestbedType:
        """The testbed."""
        return TOPOLOGIES[self.topology]

    def study_text(self) -> str:
        """Return the text of the run's study."""
        return _format_study(self, {}, self.scenario.timing)

    def control_study_text(self) -> str:
        """Return the text of the study without the cause."""
        return _format_study(self, self.scenario.control_levels, CONTROL_TIMING)

    @property
    def control_key(self) -> str:
        """Key by which controls are stored. Runs with the same key share a control."""
        return self.control_study_text() + (
            f"# {self.scenario.method}\n" if self.scenario.preparation else ""
        )

    @property
    def expected_s(self) -> float:
        """Approximate duration in seconds."""
        timing = self.scenario.timing
        return TESTBED_SETUP_S + timing.trial_count * (
            timing.duration_s + LAB_SETUP_S.get(self.testbed_type.lab, DEFAULT_SETUP_S)
        )

    def label(self) -> dict[str, object]:
        """Return the label of the run in the manifest, without its measurement."""
        return {
            "file": f"{self.name}.vnb", "part": self.part, "causes": list(self.scenario.causes),
            "accepted": list(self.scenario.accepted_causes), "is_wrong": self.scenario.has_fault,
            "way": self.scenario.method,
            "strength": self.strength, "says": self.cause_strength.description, "topology": self.topology,
            "workload": self.scenario.workload, "seed": self.seed, "repeat": self.repeat_index,
            RECIPE_KEY: self._declaration_hash(),
        }  # fmt: skip

    def _declaration_hash(self) -> str:
        parts = (
            self.study_text(),
            self.control_study_text(),
            format_canonical((self.scenario.preparation, self.cause_strength.disturbances)),
        )
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def plan_runs(scenarios: Iterable[Scenario]) -> list[Run]:
    """Return all runs of these scenarios, ordered by testbed, and in a fixed random order on each testbed."""
    runs = [
        Run(scenario, topology, strength, repeat)
        for scenario in scenarios
        for topology in scenario.topologies
        for strength in STRENGTH_NAMES
        for repeat in range(scenario.repeat_count)
    ]
    random.Random(len(TOPOLOGIES)).shuffle(runs)
    topologies = list(TOPOLOGIES)
    return sorted(runs, key=lambda run: topologies.index(run.topology))


def filter_runs(runs: Iterable[Run], filters: Mapping[str, str]) -> list[Run]:
    """Return the runs whose label has all of these values, by FILTER_KEYS."""

    def matches(run: Run) -> bool:
        label = run.label()
        return all(
            value in run.scenario.causes if key == "cause" else str(label[key]) == value
            for key, value in filters.items()
        )

    return [run for run in runs if matches(run)]


def _format_study(run: Run, changed_levels: Levels, timing: RunTiming) -> str:
    testbed_type = run.testbed_type
    levels = {**testbed_type.levels, **run.scenario.levels, **run.cause_strength.levels, **changed_levels}
    return STUDY_TEMPLATE.format(
        workload=run.scenario.workload,
        lab=testbed_type.lab,
        uplink="uplink = true\n" if testbed_type.uplink else "",
        team=TEAM_TEMPLATE.format(speed=testbed_type.team_speed) if testbed_type.team_speed else "",
        factors="\n".join(f"{name} = {json.dumps(level)}" for name, level in levels.items()),
        duration_s=timing.duration_s,
        interval_ms=1e3 * timing.interval_s,
        trials=timing.trial_count,
    )
