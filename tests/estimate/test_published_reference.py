"""Published tables as campaigns: figures without intervals, and what they are alike with."""

from __future__ import annotations

import pytest

from tests.statements.campaigns import Way, goodputs, made
from vnetbench.errors import BenchError
from vnetbench.estimate.matching import match_treatments
from vnetbench.estimate.published_reference import reference_summary
from vnetbench.published.tables import load_table
from vnetbench.published.catalog import TABLE_NAMES


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_every_figure_is_a_treatment_without_trials(name: str) -> None:
    summary, source = reference_summary(name), load_table(name)
    assert summary.reference_table == source and summary.path == f"reference:{name}"
    assert len(summary.treatments) == len(source.rows)
    assert len({frozenset(t.factors.items()) for t in summary.treatments}) == len(source.rows)
    for treatment in summary.treatments:
        assert treatment.trial_count == 0 and not summary.is_imported
        assert all(own.is_published and own.confidence == 0 for own in treatment.metrics.values())


def test_one_value_has_no_interval_and_a_mean_has_its_least_and_most() -> None:
    alone = reference_summary("ntttcp-vmxnet3-2011").treatments[0].metrics["goodput_bps"]
    assert (alone.value, alone.low, alone.high) == (9853.56e6, None, None)
    spread = reference_summary("packet-forwarding-2011").treatments[0].metrics["throughput_fps"]
    assert (spread.value, spread.low, spread.high) == (516623.4, 475260, 578445)


def test_a_name_that_is_none_is_answered_with_those_that_are() -> None:
    with pytest.raises(BenchError) as caught:
        reference_summary("ntttcp-vmxnet3")
    assert 'did you mean "ntttcp-vmxnet3-2011"?' in str(caught.value)


def test_a_figure_is_alike_with_treatments_of_the_same_level_of_all_that_both_tell() -> None:
    table = reference_summary("ntttcp-vmxnet3-2011")
    here = made(
        [*goodputs("streams", {8: 20.0, 16: 20.0}, mtu=9000), *goodputs("streams", {8: 9.0}, mtu=1500)]
    )
    found = match_treatments(table, here)
    assert {(each.after.factors["streams"], each.after.factors["mtu"]) for each in found} == {
        (8, 9000),
        (8, 1500),
    }
    assert all(each.before.factors["mtu"] == each.after.factors["mtu"] for each in found)
    assert [(each.after, each.before) for each in found if each.after.factors["mtu"] == 1500] == [
        (each.before, each.after)
        for each in match_treatments(here, table)
        if each.before.factors["mtu"] == 1500
    ]


def test_another_workload_and_no_common_factor_are_alike_with_nothing() -> None:
    table = reference_summary("ntttcp-vmxnet3-2011")
    assert match_treatments(table, reference_summary("packet-forwarding-2011")) == []
    assert match_treatments(table, made(goodputs("pairs", {1: 9.0}))) == []


def test_between_campaigns_of_ours_a_default_counts_and_beside_an_import_it_does_not() -> None:
    named = made(goodputs("streams", {4: 9.0}, message_size=2**20))
    unnamed = made(goodputs("streams", {4: 9.0}))
    other = made(goodputs("streams", {4: 9.0}, message_size=65536))
    assert len(match_treatments(named, unnamed)) == 1
    assert match_treatments(other, unnamed) == []
    imported = made(goodputs("streams", {4: 9.0, 8: 9.0}), Way(kind="imported"))
    assert len(match_treatments(other, imported)) == 1
    untold = made(goodputs("streams", {4: 9.0}, mtu="unspecified"), Way(kind="imported"))
    assert len(match_treatments(untold, other)) == 1
