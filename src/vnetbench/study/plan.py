"""The plan of a study: its treatments, and their order in each block."""

from __future__ import annotations

import hashlib
import itertools
import secrets
from collections.abc import Collection, Iterator, Mapping

from vnetbench.study.model import ONE_AT_A_TIME, Level, Plan, Study, Treatment

SEED_BITS = 32


def make_plan(study: Study, seed: int | None) -> Plan:
    """Return all treatments in the order of the study's factors and levels; draw a seed if it is None.

    `Treatment.factors` holds only the factors that the study names, which distinguish its treatments.
    `complete_levels` adds the levels of the other factors.
    """
    treatments = tuple(
        Treatment(index, levels) for index, levels in enumerate(generate_treatment_levels(study))
    )
    return Plan(treatments, secrets.randbits(SEED_BITS) if seed is None else seed)


def generate_treatment_levels(study: Study) -> Iterator[dict[str, Level]]:
    """Yield the levels of each treatment: those that no exclusion matches; the last factor varies fastest."""
    for combination in (
        _change_one_factor_at_a_time(study) if study.combine == ONE_AT_A_TIME else _combine_all_levels(study)
    ):
        if not any(_is_excluded(combination, exclusion) for exclusion in study.exclude):
            yield combination


def first_level_of_each_factor(study: Study) -> dict[str, Level]:
    """Return the first level of every factor."""
    return {factor.name: factor.levels[0] for factor in study.factors}


def _combine_all_levels(study: Study) -> Iterator[dict[str, Level]]:
    names = [factor.name for factor in study.factors]
    for levels in itertools.product(*(factor.levels for factor in study.factors)):
        yield dict(zip(names, levels, strict=True))


def _change_one_factor_at_a_time(study: Study) -> Iterator[dict[str, Level]]:
    """Yield the base, each single change to it, and the changes made together, without duplicates."""
    base = first_level_of_each_factor(study)
    changes: list[Mapping[str, Level]] = [{}]
    changes += [{factor.name: level} for factor in study.factors for level in factor.levels[1:]]
    treatments = [{**base, **change} for change in (*changes, *study.together)]
    yield from (levels for position, levels in enumerate(treatments) if levels not in treatments[:position])


def shuffle_block(plan: Plan, block: int, members: Collection[int]) -> tuple[int, ...]:
    """Return the indexes `members` in the random order in which this block runs these treatments.

    The order depends only on the seed and the block. The position of a treatment depends on no other
    treatment, so that the order of the rest stays the same when some are complete: a resumed campaign
    continues the block that it was in. (Randomised blocks: Abedi & Brecht, ICPE 2017.)
    """
    return tuple(sorted(members, key=lambda index: (_derive_random_bytes(plan.seed, block, index), index)))


def derive_search_seed(plan: Plan, block: int, index: int) -> int:
    """Return the seed of a treatment's search in a block; a resumed campaign gets the same one."""
    return int.from_bytes(_derive_random_bytes(plan.seed, block, index)[:4], "big")


def _derive_random_bytes(seed: int, block: int, index: int) -> bytes:
    # A hash gives the same values in every version of Python; `random` does not guarantee that.
    return hashlib.blake2b(f"{seed}/{block}/{index}".encode(), digest_size=16).digest()


def _is_excluded(combination: Mapping[str, Level], exclusion: Mapping[str, tuple[Level, ...]]) -> bool:
    return all(combination.get(name) in levels for name, levels in exclusion.items())
