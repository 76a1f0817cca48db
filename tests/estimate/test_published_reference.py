"""Published tables as campaigns, and their matching with measured treatments."""

from __future__ import annotations

import pytest

from tests.statements.campaigns import SimulationOptions, goodputs, simulated_campaign
from vnetbench.errors import BenchError
from vnetbench.estimate.matching import match_treatments
from vnetbench.estimate.published_reference import published_table_summary
from vnetbench.published.catalog import TABLE_NAMES
from vnetbench.published.tables import load_table


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_every_published_row_is_a_treatment_without_trials(name: str) -> None:
    summary, source = published_table_summary(name), load_table(name)
    assert summary.represented_table == source and summary.path == f"reference:{name}"
    assert len(summary.treatments) == len(source.rows)
    assert len({frozenset(t.factors.items()) for t in summary.treatments}) == len(source.rows)
    for treatment in summary.treatments:
        assert treatment.trial_count == 0 and not summary.is_imported
        assert all(own.is_published and own.confidence == 0 for own in treatment.metrics.values())


def test_a_single_value_has_no_range_and_a_mean_has_its_minimum_and_maximum() -> None:
    alone = published_table_summary("ntttcp-vmxnet3-2011").treatments[0].metrics["goodput_bps"]
    assert (alone.value, alone.low, alone.high) == (9853.56e6, None, None)
    spread = published_table_summary("packet-forwarding-2011").treatments[0].metrics["throughput_fps"]
    assert (spread.value, spread.low, spread.high) == (516623.4, 475260, 578445)


def test_an_unknown_table_name_lists_the_known_names() -> None:
    with pytest.raises(BenchError) as caught:
        published_table_summary("ntttcp-vmxnet3")
    assert 'did you mean "ntttcp-vmxnet3-2011"?' in str(caught.value)


def test_a_published_row_matches_treatments_with_equal_shared_levels() -> None:
    table = published_table_summary("ntttcp-vmxnet3-2011")
    here = simulated_campaign(
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


def test_another_workload_or_no_common_factor_gives_no_match() -> None:
    table = published_table_summary("ntttcp-vmxnet3-2011")
    assert match_treatments(table, published_table_summary("packet-forwarding-2011")) == []
    assert match_treatments(table, simulated_campaign(goodputs("pairs", {1: 9.0}))) == []


def test_defaults_count_between_measured_campaigns_but_not_with_an_import() -> None:
    named = simulated_campaign(goodputs("streams", {4: 9.0}, message_size=2**20))
    unnamed = simulated_campaign(goodputs("streams", {4: 9.0}))
    other = simulated_campaign(goodputs("streams", {4: 9.0}, message_size=65536))
    assert len(match_treatments(named, unnamed)) == 1
    assert match_treatments(other, unnamed) == []
    imported = simulated_campaign(goodputs("streams", {4: 9.0, 8: 9.0}), SimulationOptions(kind="imported"))
    assert len(match_treatments(other, imported)) == 1
    unspecified = simulated_campaign(
        goodputs("streams", {4: 9.0}, mtu="unspecified"), SimulationOptions(kind="imported")
    )
    assert len(match_treatments(unspecified, other)) == 1
