"""The order of runs: balanced and random, or as the causes are declared."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from bench.redteam.model import Cause, Run, Shape

BLOCK_SIZE = 3
"""Most faults that share one control run, so that the control is from about the same minute."""


def make_rounds(causes: Sequence[Cause], shapes: Sequence[Shape], seed: int) -> list[list[Run]]:
    """Return rounds of runs: each round has every cause once, at one intensity, on one shape.

    After a round for each intensity on each shape, every cause had every intensity on every shape that it
    exists on. A campaign that ends early has thus run every cause about equally often. A cause with fewer
    intensities than others is not in every round.
    """
    order = random.Random(seed)
    rounds = []
    intensity_count = _max_intensity_count(causes)
    cell_count = intensity_count * len(shapes)
    offsets = {cause.id: order.randrange(cell_count) for cause in causes}
    for number in range(cell_count):
        runs = []
        for cause in causes:
            cell = (number + offsets[cause.id]) % cell_count
            # Neighbouring rounds differ in the intensity first, then in the shape.
            shape = shapes[cell // intensity_count]
            intensity = cell % intensity_count
            if intensity < len(cause.intensities) and shape.cpus >= cause.min_cpus:
                turn = cell // intensity_count + offsets[cause.id]
                load, vswitch = cause.choose_load(intensity, turn), cause.choose_vswitch(intensity, turn)
                runs.append(Run(cause, intensity, shape, load, vswitch))
        order.shuffle(runs)
        rounds.append(runs)
    return rounds


def make_ordered_rounds(causes: Sequence[Cause], shapes: Sequence[Shape]) -> list[list[Run]]:
    """Return rounds of runs in the declared order of the causes.

    The first round alternates between the intensities, and the next one has the others. So a campaign that
    ends early has run the causes that stand first. A cause with fewer intensities than others, such as a
    control, is not in every round. It counts as a position, so a round has one intensity somewhat more often.
    """
    rounds = []
    intensity_count = _max_intensity_count(causes)
    for shape in shapes:
        for number in range(intensity_count):
            runs = []
            for position, cause in enumerate(causes):
                intensity = (number + position) % intensity_count
                if intensity < len(cause.intensities) and shape.cpus >= cause.min_cpus:
                    load, vswitch = cause.choose_load(intensity, 0), cause.choose_vswitch(intensity, 0)
                    runs.append(Run(cause, intensity, shape, load, vswitch))
            rounds.append(runs)
    return rounds


def _max_intensity_count(causes: Iterable[Cause]) -> int:
    return max((len(cause.intensities) for cause in causes), default=0)


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
