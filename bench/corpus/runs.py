"""All runs of the corpus, as data: each recipe on each of its testbeds in each strength."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bench.corpus import split
from bench.corpus.declared import spelled
from bench.corpus.recipe import STRENGTHS, Dose, Levels, Pace, Recipe
from bench.corpus.topologies import TOPOLOGIES, Topology
from vnetbench.study.labs import QEMU

STUDY = """\
title = "corpus"
question = "What limits this load?"
workload = "{workload}"

[testbed]
lab = "{lab}"
{uplink}
[factors]
{factors}

[timing]
duration = "{duration_s:g} s"
interval = "{interval_ms:g} ms"

[precision]
fewest_trials = {trials}
most_trials = {trials}
"""
CHOSEN_BY = ("cause", "topology", "part", "strength", "way", "file")
"""What of a label runs are chosen by."""
RECIPE = "recipe"
"""What of a label tells how a run is made; those made before 2026-11-22 do not have it."""
CONTROL = Pace(trials=2, duration_s=0.8)
"""Of the load without its cause, which is only held against the run."""
SETUP_S = {QEMU: 0.6}
"""What a trial takes beside its load, by lab; else:"""
_SETUP_S = 0.15
BED_S = 0.4
"""What a new testbed takes, with a file and what is read from it."""


@dataclass(frozen=True)
class Run:
    """One results file to be."""

    recipe: Recipe
    topology: str
    strength: str
    repeat: int = 0

    @property
    def dose(self) -> Dose:
        """What is put there."""
        return self.recipe.doses[STRENGTHS.index(self.strength)]

    @property
    def name(self) -> str:
        """Of its file; it says nothing of the cause, and stays the same when other runs are declared."""
        said = "|".join(
            (*self.recipe.causes, self.recipe.way, self.topology, self.strength, str(self.repeat))
        )
        return hashlib.sha256(said.encode()).hexdigest()[:12]

    @property
    def seed(self) -> int:
        """Of its blocks, and of what its disturbances draw."""
        return int(self.name[:8], 16)

    @property
    def part(self) -> str:
        """See `split`."""
        return split.part(self.topology, self.strength)

    @property
    def place(self) -> Topology:
        """Its testbed."""
        return TOPOLOGIES[self.topology]

    def study(self) -> str:
        """The study that is measured."""
        return _study(self, {}, self.recipe.pace)

    def control(self) -> str:
        """The same load without the cause."""
        return _study(self, self.recipe.control, CONTROL)

    @property
    def control_key(self) -> str:
        """What tells loads without a cause apart."""
        return self.control() + (f"# {self.recipe.way}\n" if self.recipe.ground else "")

    @property
    def expected_s(self) -> float:
        """How long it takes, about."""
        pace = self.recipe.pace
        return BED_S + pace.trials * (pace.duration_s + SETUP_S.get(self.place.lab, _SETUP_S))

    def label(self) -> dict[str, object]:
        """What the manifest says of it, beside what was seen."""
        return {
            "file": f"{self.name}.vnb", "part": self.part, "causes": list(self.recipe.causes),
            "accepted": list(self.recipe.accepted), "is_wrong": self.recipe.is_wrong, "way": self.recipe.way,
            "strength": self.strength, "says": self.dose.says, "topology": self.topology,
            "workload": self.recipe.workload, "seed": self.seed, "repeat": self.repeat,
            RECIPE: self._recipe_hash(),
        }  # fmt: skip

    def _recipe_hash(self) -> str:
        said = (self.study(), self.control(), spelled((self.recipe.ground, self.dose.disturb)))
        return hashlib.sha256("\n".join(said).encode()).hexdigest()[:12]


def runs_of(recipes: Iterable[Recipe]) -> list[Run]:
    """Every run of these recipes: testbed by testbed, and on each in an order drawn once for all."""
    runs = [
        Run(recipe, topology, strength, repeat)
        for recipe in recipes
        for topology in recipe.topologies
        for strength in STRENGTHS
        for repeat in range(recipe.repeats)
    ]
    random.Random(len(TOPOLOGIES)).shuffle(runs)
    places = list(TOPOLOGIES)
    return sorted(runs, key=lambda run: places.index(run.topology))


def chosen(runs: Iterable[Run], only: Mapping[str, str]) -> list[Run]:
    """Those runs whose label has all of these, each by one of CHOSEN_BY."""

    def fits(run: Run) -> bool:
        label = run.label()
        return all(
            wanted in run.recipe.causes if name == "cause" else str(label[name]) == wanted
            for name, wanted in only.items()
        )

    return [run for run in runs if fits(run)]


def _study(run: Run, others: Levels, pace: Pace) -> str:
    place = run.place
    levels = {**place.levels, **run.recipe.levels, **run.dose.levels, **others}
    return STUDY.format(
        workload=run.recipe.workload,
        lab=place.lab,
        uplink="uplink = true\n" if place.uplink else "",
        factors="\n".join(f"{name} = {json.dumps(level)}" for name, level in levels.items()),
        duration_s=pace.duration_s,
        interval_ms=1e3 * pace.interval_s,
        trials=pace.trials,
    )
