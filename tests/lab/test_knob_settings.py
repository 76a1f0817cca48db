"""What an agent reads back of a knob, held against what a treatment asks for."""

from __future__ import annotations

from typing import Any, cast

import pytest

from vnetbench.lab import knobs
from vnetbench.lab.endpoint import Endpoint
from vnetbench.lab.knobs import KnobSetting

ENDPOINT = Endpoint("a1", "a", 1, "eth0", "10.0.0.1", "")


@pytest.mark.parametrize(("asked", "found"), [("0-1", "0-1"), ("0,1", "0-1"), ("spread", "spread")])
def test_interrupts_stand_as_asked_however_their_cpus_are_written(asked: str, found: str) -> None:
    assert KnobSetting(ENDPOINT, "irq_cpus", asked, "irq_pin").matches(found)


@pytest.mark.parametrize(("asked", "found"), [("0", "1"), ("0", "0;1"), ("spread", "0;0"), ("0", "spread")])
def test_interrupts_that_stand_otherwise_or_apart_are_not_as_asked(asked: str, found: str) -> None:
    assert not KnobSetting(ENDPOINT, "irq_cpus", asked, "irq_pin").matches(found)


def test_directions_that_gather_unlike_are_not_as_asked() -> None:
    assert not KnobSetting(ENDPOINT, "coalesce", 2e-5, "coalesce").matches({"rx": 2e-5, "tx": 5e-5})


def test_what_was_set_meanwhile_is_told_of_ends_alone_where_guests_between_have_other_knobs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ends = [Endpoint(name, side, 1, "eth0", "", "") for name, side in (("a1", "a"), ("b1", "b"))]
    agents = cast(Any, {"a1": None, "b1": None, "g1": None})
    found = {"a1": {"uso": True, "tso": True}, "b1": {"uso": True, "tso": True}}
    monkeypatch.setattr(knobs, "read_back", lambda *_: found)
    effective = {"tso": True, "uso": {**dict.fromkeys(("a1", "b1"), True), "g1 eth0": None}}
    assert knobs.changed_knobs(effective, ends, agents) == {}
    found["b1"] = {"uso": False, "tso": False}
    assert knobs.changed_knobs(effective, ends, agents) == {
        "tso": {"a1": True, "b1": False},
        "uso": {"a1": True, "b1": False, "g1 eth0": None},
    }
