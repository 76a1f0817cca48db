"""The treatments of a study, and the order in which each block runs them."""

from __future__ import annotations

import hashlib
import itertools
import secrets
from collections.abc import Collection, Iterator, Mapping

from vnetbench.study.model import ONE_AT_A_TIME, Level, Plan, Study, Treatment

SEED_BITS = 32


def make_plan(study: Study, seed: int | None) -> Plan:
    """Every treatment of the study, in the order of its factors and levels; for the seed None one is drawn.

    `Treatment.factors` holds the study's own factors only: they are what tells its treatments apart.
    `factors.complete` adds the levels of the others.
    """
    treatments = tuple(Treatment(index, levels) for index, levels in enumerate(level_combinations(study)))
    return Plan(treatments, secrets.randbits(SEED_BITS) if seed is None else seed)


def level_combinations(study: Study) -> Iterator[dict[str, Level]]:
    """The study's combinations of levels that no exclusion leaves out; the last factor varies fastest."""
    for combination in _one_at_a_time(study) if study.combine == ONE_AT_A_TIME else _all_combinations(study):
        if not any(_is_excluded(combination, exclusion) for exclusion in study.exclude):
            yield combination


def base_levels(study: Study) -> dict[str, Level]:
    """The first level of every factor."""
    return {factor.name: factor.levels[0] for factor in study.factors}


def _all_combinations(study: Study) -> Iterator[dict[str, Level]]:
    names = [factor.name for factor in study.factors]
    for levels in itertools.product(*(factor.levels for factor in study.factors)):
        yield dict(zip(names, levels, strict=True))


def _one_at_a_time(study: Study) -> Iterator[dict[str, Level]]:
    """The base, each single change to it, and the changes that are made together; none of them twice."""
    base = base_levels(study)
    changes: list[Mapping[str, Level]] = [{}]
    changes += [{factor.name: level} for factor in study.factors for level in factor.levels[1:]]
    found = [{**base, **change} for change in (*changes, *study.together)]
    yield from (each for place, each in enumerate(found) if each not in found[:place])


def block_order(plan: Plan, block: int, members: Collection[int]) -> tuple[int, ...]:
    """The treatments `members` (their indexes) in the order in which this block runs them.

    The order is random, and the same for the same seed and block. Each treatment's place depends on its own
    index alone, so the order of those still open does not change when others are done: a campaign that is
    resumed goes on with the block that it was in. (Randomised blocks: Abedi & Brecht, ICPE 2017.)
    """
    return tuple(sorted(members, key=lambda index: (_hash_digest(plan.seed, block, index), index)))


def search_seed(plan: Plan, block: int, index: int) -> int:
    """The seed of the search that is a treatment's trial in a block: the same whenever that is resumed."""
    return int.from_bytes(_hash_digest(plan.seed, block, index)[:4], "big")


def _hash_digest(seed: int, block: int, index: int) -> bytes:
    # A hash and not `random`: its values stay the same in every version of Python.
    return hashlib.blake2b(f"{seed}/{block}/{index}".encode(), digest_size=16).digest()


def _is_excluded(combination: Mapping[str, Level], exclusion: Mapping[str, tuple[Level, ...]]) -> bool:
    return all(combination.get(name) in levels for name, levels in exclusion.items())
