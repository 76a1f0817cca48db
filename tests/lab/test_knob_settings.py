"""Tests of the comparison between a knob's requested value and the value read back."""

from __future__ import annotations

from typing import Any, cast

import pytest

from vnetbench.lab import knobs
from vnetbench.lab.endpoint import SIDES, Endpoint
from vnetbench.lab.knobs import KnobSetting

ENDPOINT = Endpoint("a1", "a", 1, "eth0", "10.0.0.1", "")


@pytest.mark.parametrize(("requested", "found"), [("0-1", "0-1"), ("0,1", "0-1"), ("spread", "spread")])
def test_cpu_lists_of_interrupts_match_in_any_notation(requested: str, found: str) -> None:
    assert KnobSetting(ENDPOINT, "irq_cpus", requested, "irq_pin").matches(found)


@pytest.mark.parametrize(
    ("requested", "found"), [("0", "1"), ("0", "0;1"), ("spread", "0;0"), ("0", "spread")]
)
def test_interrupts_on_other_or_different_cpus_do_not_match(requested: str, found: str) -> None:
    assert not KnobSetting(ENDPOINT, "irq_cpus", requested, "irq_pin").matches(found)


def test_different_coalescing_of_the_directions_does_not_match() -> None:
    assert not KnobSetting(ENDPOINT, "coalesce", 2e-5, "coalesce").matches({"rx": 2e-5, "tx": 5e-5})


def test_changed_knobs_leave_the_values_of_forwarding_guests_unchanged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    endpoints = [Endpoint(f"{side}1", side, 1, "eth0", "", "") for side in SIDES]
    agents = cast(Any, {"a1": None, "b1": None, "g1": None})
    found = {"a1": {"uso": True, "tso": True}, "b1": {"uso": True, "tso": True}}
    monkeypatch.setattr(knobs, "read_knobs", lambda *_: found)
    effective = {"tso": True, "uso": {**dict.fromkeys(("a1", "b1"), True), "g1 eth0": None}}
    assert knobs.knob_values_if_changed(effective, endpoints, agents) == {}
    found["b1"] = {"uso": False, "tso": False}
    assert knobs.knob_values_if_changed(effective, endpoints, agents) == {
        "tso": {"a1": True, "b1": False},
        "uso": {"a1": True, "b1": False, "g1 eth0": None},
    }
