"""Frames on real testbeds: all that are sent calmly arrive, searches end, and what is broken is said."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from vnetbench.campaign.frame_counts import FrameTotals, sum_endpoint_counts
from vnetbench.campaign.instrument import CompletedTrial, LabInstrument
from vnetbench.campaign.trial import StepSeries, TrialLoad, TrialMeasurement
from vnetbench.lab.errors import TreatmentRefused, TrialFailed
from vnetbench.lab.netns.testbed import NetnsLab, NetnsTestbed
from vnetbench.results.records import StepRecord
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.model import Level, SearchSpec, TestbedSpec

CALM_FPS = 500.0
ATTEMPTS = 6
"""On a busy machine even a calm load may be late, or lose a frame: one trial of these has to be whole."""


@dataclass
class Kept:
    """The steps of a trial, in memory."""

    steps: list[StepRecord] = field(default_factory=list)

    def series(self, asked: SearchSpec) -> StepSeries:
        return StepSeries(asked, 1, lambda: tuple(self.steps), self.steps.append, self.steps.clear)


Breaks = Callable[[NetnsTestbed], None]


class BrokenBed(NetnsTestbed):
    """A testbed that something happens to after it has been set and proved."""

    breaks: Breaks

    def apply(self, factors: Mapping[str, Level], asked: TestbedSpec) -> dict[str, Any]:
        found = super().apply(factors, asked)
        self.breaks(self)
        return found


class BrokenLab(NetnsLab):
    def __init__(self, breaks: Breaks) -> None:
        super().__init__(TestbedSpec(), "a test")
        self._breaks = breaks

    def create_testbed(self, name: str, shape: Hashable) -> NetnsTestbed:
        raised = super().create_testbed(name, shape)
        bed = BrokenBed.__new__(BrokenBed)
        bed.__dict__.update(raised.__dict__)
        bed.breaks = self._breaks
        return bed


def ip(*words: str) -> Breaks:
    """Run iproute2 in the switch, for the port of the last VM."""

    def breaks(bed: NetnsTestbed) -> None:
        port = bed.topology.ports[0][-1].interface
        told = [word.format(port=port) for word in words]
        subprocess.run(["ip", "-n", bed.topology.switch_namespace, *told], check=True)

    return breaks


def floods(**of_ports: str) -> Breaks:
    """Make the bridge forget all addresses and flood every frame, with these port settings."""
    settings = [word for setting in {"learning": "off", **of_ports}.items() for word in setting]

    def breaks(bed: NetnsTestbed) -> None:
        inside = ["ip", "-n", bed.topology.switch_namespace, "link", "set"]
        for port in (device.interface for way in bed.topology.ports for device in way):
            told = ["type", "bridge_slave", *settings, "fdb_flush"]
            subprocess.run([*inside, port, *told], check=True)

    return breaks


STRANGER = """\
import socket, sys, time
stranger = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
stranger.bind((sys.argv[1], 0))
for _ in range(3000):
    stranger.send(b"\\xff" * 6 + b"\\x02\\0\\0\\0\\0\\x09" + b"\\x08\\x06" + bytes(46))
    time.sleep(0.001)
"""


@contextmanager
def a_foreign_sender() -> Iterator[Breaks]:
    """Another sender at the last VM's port, at work for three seconds from when the testbed is ready."""
    begun: list[subprocess.Popen[bytes]] = []

    def breaks(bed: NetnsTestbed) -> None:
        inside = ["ip", "netns", "exec", bed.topology.switch_namespace, sys.executable]
        begun.append(subprocess.Popen([*inside, "-c", STRANGER, bed.topology.ports[0][-1].interface]))

    try:
        yield breaks
    finally:
        for process in begun:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def instrument() -> Iterator[LabInstrument]:
    with closing(LabInstrument(NetnsLab(TestbedSpec(), "a test"), TestbedSpec())) as made:
        yield made


def load(levels: Mapping[str, Level] | None = None, series: StepSeries | None = None) -> TrialLoad:
    calm: dict[str, Level] = {"frame_load": CALM_FPS, "device_cpus": "any"}
    factors = complete_levels({**calm, **(levels or {})}, "frames")
    return TrialLoad(factors, 0.3, 0.05, "frames", step_series=series)


def whole_trials(
    instrument: LabInstrument, asked: TrialLoad
) -> Iterator[tuple[TrialMeasurement, FrameTotals]]:
    """Trials of this load in which all frames arrived."""
    for _ in range(ATTEMPTS):
        with suppress(TrialFailed):
            found = instrument.measure(asked, lambda: False).measurement
            counts = sum_endpoint_counts(found.endpoints, asked.factors)
            if counts.received == counts.sent:
                yield found, counts


@pytest.mark.parametrize(
    "levels",
    [
        {},
        {"direction": "both", "generators": 2, "flows": 100},
        {"frame_size": "imix"},
        {"ip_version": "6", "frame_size": 128},
        {"frame_size": 1518, "vlan_tags": 1},
        {"frame_size": 9018},
    ],
)
def test_frames_of_every_form_arrive_and_are_told_by_direction(
    instrument: LabInstrument, levels: dict[str, Level]
) -> None:
    asked = load(levels)
    found, counts = next(whole_trials(instrument, asked))
    assert set(counts.sent) == ({"forward", "reverse"} if levels.get("direction") == "both" else {"forward"})
    assert all(counts.sent.values())
    assert (counts.duplicates, counts.out_of_order) == (0, 0)
    assert sum(count for _, count in counts.delay) == counts.total_received
    assert found.effective["generator"] and found.effective["sink"]


def searched(
    instrument: LabInstrument, kept: Kept, asked: SearchSpec, levels: Mapping[str, Level] | None = None
) -> CompletedTrial:
    """One search, gone on with where a step failed."""
    for _ in range(ATTEMPTS):
        with suppress(TrialFailed):
            return instrument.measure(load(levels, kept.series(asked)), lambda: False)
    raise AssertionError("the generators were kept from running")


def test_a_search_on_a_testbed_ends_with_a_run_at_what_it_found(instrument: LabInstrument) -> None:
    kept = Kept()
    asked = SearchSpec("rfc2544", width=0.5, step_s=0.1, most_load_fps=CALM_FPS, least_load_fps=50.0)
    done = searched(instrument, kept, asked)
    search: Any = done.measurement.effective["search"]
    assert search["direction_count"] == 1 and search["final_load_fps"] >= 50
    assert done.measurement.steps == tuple(kept.steps)
    again = searched(instrument, kept, asked)
    assert again.measurement.steps == done.measurement.steps
    assert again.measurement.effective["search"] == search


def test_a_port_that_is_down_is_refused_with_the_fix() -> None:
    lab = BrokenLab(ip("link", "set", "{port}", "down"))
    with (
        closing(LabInstrument(lab, TestbedSpec())) as instrument,
        pytest.raises(TreatmentRefused, match="it is down, or has no link") as refused,
    ):
        instrument.measure(load(), lambda: False)
    assert refused.value.where == "b1"


@pytest.mark.parametrize(
    "breaking", [("link", "set", "{port}", "nomaster"), ("link", "set", "{port}", "mtu", "600")]
)
def test_a_device_that_loses_all_is_told_with_how_far_they_come(breaking: tuple[str, ...]) -> None:
    kept = Kept()
    asked = SearchSpec("rfc2544", step_s=0.1, most_load_fps=CALM_FPS, least_load_fps=50.0)
    with (
        closing(LabInstrument(BrokenLab(ip(*breaking)), TestbedSpec())) as instrument,
        pytest.raises(TreatmentRefused, match=r"nothing passes: none of \d+ frames arrived; they"),
    ):
        searched(instrument, kept, asked, {"frame_size": 1518})
    assert kept.steps == []


def test_a_device_that_sends_frames_back_to_where_they_came_from_is_refused_as_a_loop() -> None:
    lab = BrokenLab(floods(hairpin="on"))
    with (
        closing(LabInstrument(lab, TestbedSpec())) as instrument,
        pytest.raises(TreatmentRefused, match=r"a loop: \d+ of the frames that a1 sent came back") as refused,
    ):
        instrument.measure(load(), lambda: False)
    assert "hairpin" in str(refused.value.fix)


def test_a_device_that_floods_is_told_by_the_pair_that_the_frames_were_not_for() -> None:
    asked = load({"pairs": 2, "frame_load": 2000.0})
    with closing(LabInstrument(BrokenLab(floods()), TestbedSpec())) as instrument:
        found = instrument.measure(asked, lambda: False).measurement
    flooded = [note for note in found.notes if "the device floods" in note]
    assert {note.partition(":")[0] for note in flooded} >= {"b1", "b2"}
    assert not any("foreign" in note for note in found.notes)


def test_a_foreign_sender_on_the_link_is_told_with_what_it_sends() -> None:
    with (
        a_foreign_sender() as breaks,
        closing(LabInstrument(BrokenLab(breaks), TestbedSpec())) as instrument,
    ):
        found = instrument.measure(load(), lambda: False).measurement
    assert any(re.match(r"b1: \d+ foreign frames came \(such as ARP", note) for note in found.notes)
