"""The treatments of a study, and the order in which each block runs them."""

from __future__ import annotations

import hashlib
import itertools
import secrets
from collections.abc import Collection, Iterator, Mapping

from vnetbench.study.model import Level, Plan, Study, Treatment

SEED_BITS = 32


def make_plan(study: Study, seed: int | None) -> Plan:
    """Every treatment of the study, in the order of its factors and levels; for the seed None one is drawn.

    `Treatment.factors` holds the study's own factors only: they are what tells its treatments apart.
    `factors.complete` adds the levels of the others.
    """
    treatments = tuple(Treatment(index, levels) for index, levels in enumerate(combinations(study)))
    return Plan(treatments, secrets.randbits(SEED_BITS) if seed is None else seed)


def combinations(study: Study) -> Iterator[dict[str, Level]]:
    """All combinations of the study's levels that no exclusion leaves out; the last factor varies fastest."""
    names = [factor.name for factor in study.factors]
    for levels in itertools.product(*(factor.levels for factor in study.factors)):
        combination = dict(zip(names, levels, strict=True))
        if not any(_matches(combination, exclusion) for exclusion in study.exclude):
            yield combination


def block_order(plan: Plan, block: int, members: Collection[int]) -> tuple[int, ...]:
    """The treatments `members` (their indexes) in the order in which this block runs them.

    The order is random, and the same for the same seed and block. Each treatment's place depends on its own
    index alone, so the order of those still open does not change when others are done: a campaign that is
    resumed goes on with the block that it was in. (Randomised blocks: Abedi & Brecht, ICPE 2017.)
    """
    return tuple(sorted(members, key=lambda index: (_draw(plan.seed, block, index), index)))


def _draw(seed: int, block: int, index: int) -> bytes:
    # A hash and not `random`: its values stay the same in every version of Python.
    return hashlib.blake2b(f"{seed}/{block}/{index}".encode(), digest_size=16).digest()


def _matches(combination: Mapping[str, Level], exclusion: Mapping[str, tuple[Level, ...]]) -> bool:
    return all(combination.get(name) in levels for name, levels in exclusion.items())
