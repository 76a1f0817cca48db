"""Closing: an error of one part keeps no other part open."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from vnetbench import cleanup
from vnetbench.campaign.instrument import LabInstrument
from vnetbench.campaign.iperf3_instrument import Iperf3Instrument
from vnetbench.lab import registry
from vnetbench.lab.guest.launcher import RunningGuest, close_guests
from vnetbench.lab.guest.testbed import GuestTestbed
from vnetbench.lab.netns.testbed import NetnsTestbed
from vnetbench.study.model import TestbedSpec

pytestmark = pytest.mark.pure


class Part:
    """Something that writes its name when it is closed, and whose close fails on request."""

    def __init__(self, name: str, closed: list[str], fails: bool = False) -> None:
        self._name, self._closed, self._fails = name, closed, fails

    def close(self) -> None:
        self._closed.append(self._name)
        if self._fails:
            raise OSError(f"{self._name} cannot be closed")

    def kill(self, reason: str) -> None:
        self._closed.append(f"{self._name} killed")
        if self._fails:
            raise OSError(f"{self._name} cannot be killed")


def record_removals(monkeypatch: pytest.MonkeyPatch, closed: list[str]) -> None:
    monkeypatch.setattr(registry, "remove_testbed_and_list_remaining_groups", closed.append)


def without_init(kind: type[Any], **attributes: object) -> Any:
    made: Any = object.__new__(kind)
    made.__dict__.update(attributes)
    return made


def test_steps_run_in_order_after_errors_and_all_errors_are_kept() -> None:
    closed: list[str] = []
    parts = [Part("a", closed, fails=True), Part("b", closed), Part("c", closed, fails=True)]
    with pytest.raises(OSError, match="a cannot be closed") as raised:
        cleanup.run_all_despite_errors(part.close for part in parts)
    assert closed == ["a", "b", "c"]
    assert raised.value.__notes__ == ["another step failed too: OSError('c cannot be closed')"]


def test_an_interruption_is_raised_before_other_errors() -> None:
    closed: list[str] = []

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cleanup.run_all_despite_errors(
            (Part("a", closed, fails=True).close, interrupt, Part("b", closed).close)
        )
    assert closed == ["a", "b"]


def test_a_namespace_testbed_is_removed_although_an_agent_cannot_be_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed: list[str] = []
    record_removals(monkeypatch, closed)
    agents = {"a1": Part("a1", closed, fails=True), "b1": Part("b1", closed)}
    testbed = without_init(
        NetnsTestbed,
        agents=agents,
        link=Part("link", closed, fails=True),
        topology=SimpleNamespace(testbed_name="t"),
    )
    with pytest.raises(OSError, match="a1"):
        testbed.close()
    assert closed == ["a1", "b1", "link", "t"]


def test_a_guest_testbed_is_removed_although_its_guests_cannot_be_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed: list[str] = []
    record_removals(monkeypatch, closed)
    guest = without_init(
        RunningGuest, process=Part("qemu", closed, fails=True), agent=Part("guest's agent", closed)
    )
    testbed = without_init(
        GuestTestbed,
        running=[guest],
        agents={"a1": Part("a1", closed)},
        link=Part("link", closed),
        topology=SimpleNamespace(testbed_name="t"),
        _watchdog=Part("watchdog", closed, fails=True),
    )
    with pytest.raises(OSError, match="watchdog"):
        testbed.close()
    assert closed == ["watchdog", "qemu killed", "qemu", "guest's agent", "a1", "link", "t"]
    assert testbed.is_closed


def test_all_guests_are_ended_although_one_cannot_be_killed() -> None:
    closed: list[str] = []
    guests = [
        without_init(RunningGuest, process=Part(name, closed, fails), agent=Part(f"{name}'s agent", closed))
        for name, fails in (("a", True), ("b", False))
    ]
    with pytest.raises(OSError, match="a cannot be"):
        close_guests(guests)
    assert closed == ["a killed", "b killed", "a", "a's agent", "b", "b's agent"]


def make_instrument(closed: list[str]) -> LabInstrument:
    lab: Any = SimpleNamespace(remove_unfinished_testbeds=lambda prefix: closed.append("unfinished"))
    instrument = LabInstrument(lab, TestbedSpec())
    testbeds: Any = {name: Part(name, closed, fails=True) for name in ("first", "second")}
    instrument._testbeds.update(testbeds)
    observer: Any = Part("observer", closed)
    instrument._observer = observer
    return instrument


def test_an_instrument_closes_every_testbed_and_the_observer_after_errors() -> None:
    closed: list[str] = []
    instrument = make_instrument(closed)
    with pytest.raises(OSError, match="second"):
        instrument.close()
    assert closed == ["second", "first", "unfinished", "observer"]
    instrument.close()
    assert closed[4:] == ["unfinished"]


def test_a_failed_trial_closes_the_observer_although_the_testbed_cannot_be_closed() -> None:
    closed: list[str] = []
    instrument = make_instrument(closed)
    with pytest.raises(OSError, match="second"):
        instrument._close_testbed_and_observer("second")
    assert closed == ["second", "observer"]


def test_the_iperf3_instrument_closes_both_agents() -> None:
    closed: list[str] = []
    instrument = without_init(
        Iperf3Instrument, _agent=Part("agent", closed, fails=True), _observer=Part("observer", closed)
    )
    with pytest.raises(OSError, match="agent"):
        instrument.close()
    assert closed == ["agent", "observer"]
    instrument.close()
    assert len(closed) == 2
