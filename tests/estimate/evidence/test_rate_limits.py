"""Evidence of a firewall's rate limits, from known rules and loads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.estimate.evidence.fixtures import (
    change_endpoint,
    trial_evidence,
    uniform_trial,
    with_counters,
    with_totals,
)
from tests.estimate.evidence.test_path_state import state


def share_of(*limits: dict[str, object]) -> float:
    """Return the evidence of a load of 1 MB and 2000 packets in each sample of 50 ms."""
    trial = with_counters(uniform_trial(), "b1", rx_bytes=1_000_000, rx_packets=2000)
    trial = with_totals(trial, "b1", path_state=state(rate_limits=list(limits)))
    return trial_evidence(trial)["rate_limit_share_percent"]


def test_the_load_is_a_share_of_the_rate_in_its_unit() -> None:
    assert share_of({"unit": "bytes", "per_s": 25e6}) == pytest.approx(80)
    assert share_of({"unit": "packets", "per_s": 50e3}) == pytest.approx(80)


def test_a_rule_for_other_packets_is_no_limit_of_the_load() -> None:
    icmp = {"unit": "packets", "per_s": 10.0}
    assert share_of(icmp) == 0
    assert share_of(icmp, {"unit": "bytes", "per_s": 40e6}) == pytest.approx(50)


def test_no_rule_is_known_to_be_no_limit_but_an_older_agent_says_nothing() -> None:
    assert share_of() == 0
    older = with_totals(uniform_trial(), "b1", path_state=state())
    assert "rate_limit_share_percent" not in trial_evidence(older)
    unknown = with_totals(uniform_trial(), "b1", path_state=state(rate_limits=None))
    assert "rate_limit_share_percent" not in trial_evidence(unknown)


def test_without_the_receivers_counters_the_share_is_unknown() -> None:
    limits = [{"unit": "packets", "per_s": 50e3}]
    trial = with_totals(uniform_trial(), "b1", path_state=state(rate_limits=limits))
    trial = change_endpoint(
        trial, "b1", lambda x: replace(x, samples=tuple(replace(each, counters={}) for each in x.samples))
    )
    assert "rate_limit_share_percent" not in trial_evidence(trial)
