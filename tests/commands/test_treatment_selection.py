"""Selection of treatments: levels with commas, labels, and ambiguous selectors."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.explain.comparisons.simulated import campaign, treatment
from vnetbench.commands.treatment_selection import select_treatments
from vnetbench.errors import BenchError
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.study.model import FactorLevels, Level

pytestmark = pytest.mark.pure


def make_campaign(*levels: Mapping[str, Level]) -> CampaignSummary:
    names = levels[0].keys()
    factors = [FactorLevels(name, tuple(dict.fromkeys(each[name] for each in levels))) for name in names]
    return campaign(factors, [treatment(index, each, [1e9]) for index, each in enumerate(levels)])


PINNED = make_campaign(
    {"thread_cpus": "0,2", "mtu": 1500},
    {"thread_cpus": "0,2", "mtu": 9000},
    {"thread_cpus": "0,2/1,3", "mtu": 1500},
    {"thread_cpus": "any", "mtu": 1500},
)
LABELLED = make_campaign(
    {"label_host": "old", "mtu": 9000},
    {"label_host": "old, 2 CPUs", "mtu": 1500},
    {"label_host": "old,mtu=9000", "mtu": 1500},
    {"label_host": "new,x=1", "mtu": 1500},
    {"label_host": '6" rack', "mtu": 1500},
)

PARTLY_SPECIFIED = make_campaign(
    {"mtu": 1500, "thread_cpus": "unspecified"},
    {"mtu": "unspecified", "thread_cpus": "unspecified"},
    {"mtu": "unspecified", "thread_cpus": "0,2"},
)


@pytest.mark.parametrize(
    ("selector", "indices"),
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
def test_a_level_may_contain_commas_that_no_factor_follows(selector: str, indices: list[int]) -> None:
    assert select_treatments(PINNED, selector) == indices


@pytest.mark.parametrize(
    ("selector", "indices"),
    [
        ("label_host=old, 2 CPUs", [1]),
        ("label_host=new,x=1,mtu=1500", [3]),
        ('mtu=1500,label_host=6" rack', [4]),
        ('label_host="old,mtu=9000"', [2]),
        ('label_host="old",mtu=9000', [0]),
    ],
)
def test_a_label_may_be_any_text(selector: str, indices: list[int]) -> None:
    assert select_treatments(LABELLED, selector) == indices


@pytest.mark.parametrize(
    ("selector", "indices"),
    [
        ("mtu=unspecified", [1, 2]),
        ("mtu=unspecified,thread_cpus=0,2", [2]),
        ("thread_cpus=unspecified", [0, 1]),
        ("mtu=1500", [0]),
    ],
)
def test_the_level_unspecified_selects_treatments_without_that_level(
    selector: str, indices: list[int]
) -> None:
    assert select_treatments(PARTLY_SPECIFIED, selector) == indices


@pytest.mark.parametrize(
    ("summary", "selector", "message", "fix"),
    [
        (LABELLED, "label_host=old,mtu=9000", "the selector is ambiguous", "'label_host=\"old,mtu=9000\"'"),
        (PINNED, "mtu=1500,9000", "mtu=1500,9000 has 2 levels", "one --treatment option for each"),
        (PINNED, "mtu=1500,mtu=9000", "mtu is given twice", "one --treatment option for each"),
        (PINNED, "mtu=1500,streem=1", '"streem" is not a factor', 'did you mean "streams"?'),
        (PINNED, "thread_cpus=0,2,streem=1", '"streem" is not a factor', 'did you mean "streams"?'),
        (PINNED, "thread_cpus=any,0,2", "is not a valid CPU set", "write "),
        (PINNED, "thread_cpus=0,3", "no treatment matches thread_cpus=0,3", "give levels of the factors"),
        (PINNED, "mtu=unspecified", "no treatment matches mtu=unspecified", "give levels of the factors"),
        (PINNED, "mtu=", "is not a whole number", "write "),
        (PINNED, "", '"" is not a factor', "give levels of the factors"),
        (PINNED, ",mtu=1500", '"" is not a factor', "give levels of the factors"),
    ],
)
def test_an_unclear_selector_is_an_error_with_a_fix(
    summary: CampaignSummary, selector: str, message: str, fix: str
) -> None:
    with pytest.raises(BenchError) as error:
        select_treatments(summary, selector)

    assert error.value.where == "--treatment"
    assert message in error.value.what and fix in str(error.value.fix)
