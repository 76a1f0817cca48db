"""Tests of the choice between netem and delay lines, and of netem's parameters."""

from __future__ import annotations

from typing import Any, ClassVar, cast

import pytest
from pyroute2 import IPRoute
from pyroute2.netlink.rtnl.tcmsg.common import tick_in_usec

from vnetbench.campaign import trial
from vnetbench.campaign.trial_notes import delay_line_notes
from vnetbench.lab.errors import TreatmentRefused, TrialFailed
from vnetbench.lab.links import netem
from vnetbench.lab.links.impaired_link import ImpairedLink, needs_delay_line
from vnetbench.lab.links.impairments import Impairments, check_round_trips_match_delay, requested_impairments
from vnetbench.lab.netns.topology import BRIDGE, DIRECT, MACVLAN, ROUTER, NetnsShape, make_topology
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.model import Level

pytestmark = pytest.mark.pure


def set_netem_available(monkeypatch: pytest.MonkeyPatch, answer: bool) -> None:
    monkeypatch.setattr(netem, "is_available", lambda: answer)


@pytest.mark.parametrize(
    ("vswitch", "levels", "is_line"),
    [
        (BRIDGE, {}, False),
        (BRIDGE, {"link_delay": 0.001}, False),
        (BRIDGE, {"link_delay": 0.001, "link_rate": 10**9}, False),
        (ROUTER, {"link_delay": 0.001, "link_rate": 10**9}, False),
        (MACVLAN, {"link_delay": 0.001}, False),
        (DIRECT, {"link_delay": 0.001}, False),
        (DIRECT, {"link_delay": 0.001, "link_rate": 10**9}, True),
        (MACVLAN, {"link_delay": 0.001, "link_rate": 10**9}, True),
        (BRIDGE, {"link_delay": 0.001, "link_jitter": 0.0005}, True),
        (BRIDGE, {"link_loss": 0.01}, True),
        (BRIDGE, {"link_reordering": 0.01}, True),
    ],
)
def test_netem_only_adds_delay_and_only_behind_the_shaper(
    monkeypatch: pytest.MonkeyPatch, vswitch: str, levels: dict[str, Level], is_line: bool
) -> None:
    set_netem_available(monkeypatch, True)
    network = make_topology("check", NetnsShape(vswitch))
    assert needs_delay_line(complete_levels({"vswitch": vswitch, **levels}), network) == is_line


def test_without_netem_every_impairment_needs_a_delay_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_netem_available(monkeypatch, False)
    network = make_topology("check", NetnsShape())
    assert needs_delay_line(complete_levels({"link_delay": 0.001}), network)
    assert not needs_delay_line(complete_levels({"link_delay": "none", "link_loss": 0.0}), network)


def test_a_line_takes_the_place_of_an_uplink_or_of_the_link_to_side_b() -> None:
    bridged = make_topology("t", NetnsShape(delay_line=True))
    assert bridged.vswitches == ("sw0", "sw1")
    assert [ends.temporary_tap_names for ends in bridged.delay_lines] == [("up0", "up1")]
    assert bridged.rate_limited_devices == tuple(vm.device for vm in bridged.endpoints), (
        "rates are limited before the delay line"
    )
    assert (
        make_topology("t", NetnsShape(uplink=True, delay_line=True)).rate_limited_devices
        == bridged.uplink_ends
    )
    routed = make_topology("t", NetnsShape(ROUTER, 2, delay_line=True))
    assert [[d.location for d in ends.devices] for ends in routed.delay_lines] == [
        [("vnb.t.sw", "b1"), ("vnb.t.b1", "eth0")],
        [("vnb.t.sw", "b2"), ("vnb.t.b2", "eth0")],
    ]
    assert make_topology("t", NetnsShape(DIRECT, delay_line=True)).has_switch_namespace


class FakeQdisc:
    """A kernel's answer to RTM_GETQDISC as pyroute2 reads it."""

    def __init__(self, kind: str, options: dict[str, int]) -> None:
        self._attributes = {"TCA_KIND": kind, "TCA_OPTIONS": options}

    def get_attr(self, name: str) -> Any:
        return self._attributes[name]

    def get_qdiscs(self, index: int) -> list[FakeQdisc]:
        assert index == 7
        return [self]


def test_netem_is_set_in_microseconds_and_read_in_ticks() -> None:
    assert netem.netem_options(0.0205) == {"delay": 20_500, "limit": netem.QUEUE_LIMIT_PACKETS}
    ticks = int(20_500 * float(tick_in_usec))
    for answer, delay_s in ((FakeQdisc("netem", {"delay": ticks}), 0.0205), (FakeQdisc("noqueue", {}), 0.0)):
        assert netem.read_delay_s(cast(IPRoute, answer), 7) == delay_s


def test_impairments_are_read_from_levels_and_written_as_levels() -> None:
    requested = requested_impairments({"link_delay": 0.02, "link_jitter": "none", "link_loss": 0.01})
    assert requested == Impairments(0.02, loss_ratio=0.01)
    assert requested.as_levels() == {
        "link_delay": 0.02, "link_jitter": "none", "link_loss": 0.01, "link_reordering": 0.0,
    }  # fmt: skip
    assert not requested.is_delay_only
    assert Impairments(0.02).is_delay_only
    assert not Impairments().is_delay_only


@pytest.mark.parametrize("rtt_us", [None, 1_890.0, 5_600.0])
def test_a_round_trip_that_is_not_twice_the_delay_refuses_the_treatment(rtt_us: float | None) -> None:
    with pytest.raises(TreatmentRefused, match="should take 2 ms") as refused:
        check_round_trips_match_delay([2_100.0, rtt_us], 0.001, "up0 > up1")
    assert refused.value.where == "up0 > up1"
    check_round_trips_match_delay([2_100.0, 2_400.0], 0.001, "up0 > up1")


class RecordingLines:
    """Delay lines that record what they were set to."""

    name = "delay line"

    def __init__(self) -> None:
        self.requests: list[Impairments] = []

    def set_impairments(self, requested: Impairments) -> Impairments:
        self.requests.append(requested)
        return requested


def test_a_reset_of_the_counters_sets_the_impairments_again(monkeypatch: pytest.MonkeyPatch) -> None:
    lines, link = RecordingLines(), ImpairedLink("t", make_topology("t", NetnsShape(delay_line=True)))
    link.reset_counters_and_seeds()  # Without a line there is nothing to reset.
    monkeypatch.setattr(link, "_delay_lines", lines)
    link.set_delay_for_path_proof({"link_delay": 0.001, "link_loss": 0.01})
    assert lines.requests == [Impairments(0.001)]
    link.reset_counters_and_seeds()
    assert lines.requests == [Impairments(0.001)] * 2, "the reset sets the current impairments again"


def test_an_impairment_that_did_not_take_effect_is_reported_as_a_level(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Rounding(RecordingLines):
        def set_impairments(self, requested: Impairments) -> Impairments:
            return Impairments(requested.delay_s, loss_ratio=0.002)

    link = ImpairedLink("t", make_topology("t", NetnsShape(delay_line=True)))
    monkeypatch.setattr(link, "_delay_lines", Rounding())
    with pytest.raises(TreatmentRefused, match=r"link_loss = 0 % did not take effect: 0.2 % was read back"):
        link.set_delay_for_path_proof({"link_delay": 0.001, "link_loss": 0.01})


def test_a_trial_resets_the_counters_before_its_load(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    class FakeTestbed:
        agents: ClassVar[dict[str, object]] = {}
        endpoints = ()

        def interfaces_by_forwarding_agent(self) -> dict[str, tuple[str, ...]]:
            return {}

        def watched_interfaces(self, endpoint: object) -> tuple[str, ...]:
            return ()

        def reset_delay_line_counters_and_seeds(self) -> None:
            done.append("counts")

    def run(*_: object) -> Any:
        done.append("load")
        raise TrialFailed("enough")

    monkeypatch.setattr(trial, "run_trial", run)
    load = trial.TrialLoad(complete_levels({}), 1.0, 0.1)
    for _ in range(2):
        with pytest.raises(TrialFailed):
            trial.measure_trial(cast(Any, FakeTestbed()), cast(Any, None), load)
    assert done == ["counts", "load"] * 2


def test_a_delay_line_that_was_the_limit_is_noted() -> None:
    idle = {"cpu_s": 0.5, "elapsed_s": 1.0, "queue_drops": 0, "port_drops": 0, "lateness_p50_us": 40.0}
    limit = {"cpu_s": 0.97, "elapsed_s": 1.0, "queue_drops": 12, "port_drops": 3, "lateness_p50_us": 2000.0}
    assert delay_line_notes([{"forward": {"counts": idle}, "reverse": {"counts": idle}}]) == []
    notes = delay_line_notes([{"forward": {"counts": limit}, "reverse": {"counts": idle}}])
    assert [sentence.partition(": ")[0] for sentence in notes] == ["delay line 1 forward"] * 4
    for part in ("busy 97 %", "dropped 12 frames", "rejected 3 frames", "2000 µs late"):
        assert any(part in sentence for sentence in notes)
