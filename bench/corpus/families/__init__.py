"""All recipes, by the family of what they put there."""

from __future__ import annotations

from bench.corpus.families import (
    cpu,
    frames,
    guests,
    instability,
    instrument,
    links,
    nothing,
    packets,
    pairs,
    window,
)
from bench.corpus.recipe import Recipe

RECIPES: tuple[Recipe, ...] = (
    *cpu.RECIPES,
    *window.RECIPES,
    *packets.RECIPES,
    *links.RECIPES,
    *instability.RECIPES,
    *instrument.RECIPES,
    *nothing.RECIPES,
    *guests.RECIPES,
    *frames.RECIPES,
    *pairs.RECIPES,
)
