"""All scenarios of the corpus, one module per type of cause."""

from __future__ import annotations

from bench.corpus.scenario import Scenario
from bench.corpus.scenarios import (
    combined_causes,
    cpu,
    frames,
    guests,
    instability,
    instrument,
    links,
    no_fault,
    packets,
    teams,
    windows,
)

SCENARIOS: tuple[Scenario, ...] = (
    *cpu.RECIPES,
    *windows.RECIPES,
    *packets.RECIPES,
    *links.RECIPES,
    *teams.RECIPES,
    *instability.RECIPES,
    *instrument.RECIPES,
    *no_fault.RECIPES,
    *guests.RECIPES,
    *frames.RECIPES,
    *combined_causes.RECIPES,
)
