"""Naming treatments by levels that have commas in them, and what cannot be told apart."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.explain.comparisons.simulated import campaign, treatment
from vnetbench.commands.treatment_selection import select_treatments
from vnetbench.errors import BenchError
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.study.model import FactorLevels, Level

pytestmark = pytest.mark.pure


def of(*levels: Mapping[str, Level]) -> CampaignSummary:
    names = levels[0].keys()
    factors = [FactorLevels(name, tuple(dict.fromkeys(each[name] for each in levels))) for name in names]
    return campaign(factors, [treatment(place, each, [1e9]) for place, each in enumerate(levels)])


PINNED = of(
    {"thread_cpus": "0,2", "mtu": 1500},
    {"thread_cpus": "0,2", "mtu": 9000},
    {"thread_cpus": "0,2/1,3", "mtu": 1500},
    {"thread_cpus": "any", "mtu": 1500},
)
LABELLED = of(
    {"label_host": "old", "mtu": 9000},
    {"label_host": "old, 2 CPUs", "mtu": 1500},
    {"label_host": "old,mtu=9000", "mtu": 1500},
    {"label_host": "new,x=1", "mtu": 1500},
    {"label_host": '6" rack', "mtu": 1500},
)

PARTLY_TOLD = of(
    {"mtu": 1500, "thread_cpus": "unspecified"},
    {"mtu": "unspecified", "thread_cpus": "unspecified"},
    {"mtu": "unspecified", "thread_cpus": "0,2"},
)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("thread_cpus=0,2", [0, 1]),
        ("thread_cpus=0,2,mtu=1500", [0]),
        ("mtu=9000, thread_cpus=0,2", [1]),
        ("thread_cpus=0,2/1,3,mtu=1500", [2]),
        ('thread_cpus="0,2",mtu=9000', [1]),
        ("thread_cpus=any", [3]),
        ("thread_cpus=any,mtu=1500,streams=1", [3]),
        ("2", [2]),
    ],
)
def test_a_level_may_have_commas_where_no_factor_follows_them(asked: str, found: list[int]) -> None:
    assert select_treatments(PINNED, asked) == found


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("label_host=old, 2 CPUs", [1]),
        ("label_host=new,x=1,mtu=1500", [3]),
        ('mtu=1500,label_host=6" rack', [4]),
        ('label_host="old,mtu=9000"', [2]),
        ('label_host="old",mtu=9000', [0]),
    ],
)
def test_a_label_may_be_any_text(asked: str, found: list[int]) -> None:
    assert select_treatments(LABELLED, asked) == found


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("mtu=unspecified", [1, 2]),
        ("mtu=unspecified,thread_cpus=0,2", [2]),
        ("thread_cpus=unspecified", [0, 1]),
        ("mtu=1500", [0]),
    ],
)
def test_a_level_that_a_log_does_not_tell_can_be_named(asked: str, found: list[int]) -> None:
    assert select_treatments(PARTLY_TOLD, asked) == found


@pytest.mark.parametrize(
    ("summary", "asked", "what", "fix"),
    [
        (LABELLED, "label_host=old,mtu=9000", "it can be read in two ways", "'label_host=\"old,mtu=9000\"'"),
        (PINNED, "mtu=1500,9000", "mtu=1500,9000 are 2 levels", "a --treatment of its own"),
        (PINNED, "mtu=1500,mtu=9000", "mtu is named twice", "a --treatment of its own"),
        (PINNED, "mtu=1500,streem=1", '"streem" is not a factor', 'did you mean "streams"?'),
        (PINNED, "thread_cpus=0,2,streem=1", '"streem" is not a factor', 'did you mean "streams"?'),
        (PINNED, "thread_cpus=any,0,2", "names no CPUs", "write "),
        (PINNED, "thread_cpus=0,3", "no treatment is thread_cpus=0,3", "name levels of its factors"),
        (PINNED, "mtu=unspecified", "no treatment is mtu=unspecified", "name levels of its factors"),
        (PINNED, "mtu=", "is not a whole number", "write "),
        (PINNED, "", '"" is not a factor', "name levels of its factors"),
        (PINNED, ",mtu=1500", '"" is not a factor', "name levels of its factors"),
    ],
)
def test_what_cannot_be_told_is_refused_with_what_to_write(
    summary: CampaignSummary, asked: str, what: str, fix: str
) -> None:
    with pytest.raises(BenchError) as error:
        select_treatments(summary, asked)

    assert error.value.where == "--treatment"
    assert what in error.value.what and fix in str(error.value.fix)
