"""A balanced random order of runs."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from bench.redteam.model import Cause, Run, Shape

INTENSITY_COUNT = 3
BLOCK_SIZE = 3
"""Most faults that share one control run, so that the control is from about the same minute."""


def make_rounds(causes: Sequence[Cause], shapes: Sequence[Shape], seed: int) -> list[list[Run]]:
    """Return rounds of runs: each round has every cause once, at one intensity, on one shape.

    After `3 * len(shapes)` rounds every cause had every intensity on every shape that it exists on. A
    campaign that ends early has thus run every cause about equally often.
    """
    order = random.Random(seed)
    rounds = []
    offsets = {cause.id: order.randrange(INTENSITY_COUNT * len(shapes)) for cause in causes}
    for number in range(INTENSITY_COUNT * len(shapes)):
        runs = []
        for cause in causes:
            cell = (number + offsets[cause.id]) % (INTENSITY_COUNT * len(shapes))
            # Neighbouring rounds differ in the intensity first, then in the shape.
            shape = shapes[cell // INTENSITY_COUNT]
            intensity = cell % INTENSITY_COUNT
            if shape.cpus >= cause.min_cpus:
                turn = cell // INTENSITY_COUNT + offsets[cause.id]
                load, vswitch = cause.choose_load(intensity, turn), cause.choose_vswitch(intensity, turn)
                runs.append(Run(cause, intensity, shape, load, vswitch))
        order.shuffle(runs)
        rounds.append(runs)
    return rounds


def make_ordered_rounds(causes: Sequence[Cause], shapes: Sequence[Shape]) -> list[list[Run]]:
    """Return rounds of runs in the declared order of the causes.

    The first round alternates between the intensities, and the next one has the others. So a campaign that
    ends early has run the causes that stand first. A cause with one intensity is in one round only.
    """
    rounds = []
    for shape in shapes:
        for number in range(max((len(cause.intensities) for cause in causes), default=0)):
            runs = []
            for position, cause in enumerate(causes):
                intensity = (number + position) % max(len(cause.intensities), 2)
                if intensity < len(cause.intensities) and shape.cpus >= cause.min_cpus:
                    load, vswitch = cause.choose_load(intensity, 0), cause.choose_vswitch(intensity, 0)
                    runs.append(Run(cause, intensity, shape, load, vswitch))
            rounds.append(runs)
    return rounds


def group_by_setting(runs: Iterable[Run]) -> list[list[Run]]:
    """Return blocks of at most `BLOCK_SIZE` runs that share a control run, in order of their first run."""
    blocks: list[list[Run]] = []
    open_blocks: dict[object, list[Run]] = {}
    for run in runs:
        block = open_blocks.get(run.setting)
        if run.cause.is_control or block is None or len(block) == BLOCK_SIZE:
            block = []
            blocks.append(block)
            if not run.cause.is_control:
                open_blocks[run.setting] = block
        block.append(run)
    return blocks
