"""Workloads of frames on real testbeds: complete trials, searches, and errors of broken networks."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from vnetbench.campaign.frame_counts import sum_endpoint_counts
from vnetbench.campaign.instrument import CompletedTrial, LabInstrument
from vnetbench.campaign.trial import StepSeries, TrialLoad
from vnetbench.lab import netlink
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.lab.netns.testbed import NetnsLab, NetnsTestbed
from vnetbench.results.records import StepRecord
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.model import Level, SearchSpec, TestbedSpec

LOW_LOAD_FPS = 500.0


@dataclass
class StepStore:
    """Keeps the steps of a trial in memory."""

    steps: list[StepRecord] = field(default_factory=list)

    def make_series(self, search: SearchSpec) -> StepSeries:
        return StepSeries(search, 1, lambda: tuple(self.steps), self.steps.append, self.steps.clear)


Sabotage = Callable[[NetnsTestbed], None]
"""Breaks the network of a testbed."""


class BrokenTestbed(NetnsTestbed):
    """A testbed whose network breaks after its settings and paths have been checked."""

    sabotage: Sabotage

    def set_knobs_and_prove_paths(
        self, factors: Mapping[str, Level], testbed_spec: TestbedSpec
    ) -> dict[str, Any]:
        effective = super().set_knobs_and_prove_paths(factors, testbed_spec)
        self.sabotage(self)
        return effective


class BrokenLab(NetnsLab):
    def __init__(self, sabotage: Sabotage) -> None:
        super().__init__(TestbedSpec(), "a test")
        self._sabotage = sabotage

    def create_testbed(self, name: str, shape: Hashable) -> NetnsTestbed:
        original = super().create_testbed(name, shape)
        testbed = BrokenTestbed.__new__(BrokenTestbed)
        testbed.__dict__.update(original.__dict__)
        testbed.sabotage = self._sabotage
        return testbed


def run_ip(*arguments: str) -> Sabotage:
    """Run iproute2 in the switch's namespace; `{port}` is the port of the last VM."""

    def sabotage(testbed: NetnsTestbed) -> None:
        port = testbed.topology.ports_by_pair[0][-1].interface
        command = [argument.format(port=port) for argument in arguments]
        subprocess.run(["ip", "-n", testbed.topology.switch_namespace, *command], check=True)

    return sabotage


def flood_frames(**port_settings: str) -> Sabotage:
    """Make the bridge forget all addresses and flood every frame, with these port settings."""
    settings = [word for setting in {"learning": "off", **port_settings}.items() for word in setting]

    def sabotage(testbed: NetnsTestbed) -> None:
        command = ["ip", "-n", testbed.topology.switch_namespace, "link", "set"]
        for port in (device.interface for path in testbed.topology.ports_by_pair for device in path):
            options = ["type", "bridge_slave", *settings, "fdb_flush"]
            subprocess.run([*command, port, *options], check=True)

    return sabotage


ARP_FRAME = b"\xff" * 6 + b"\x02\0\0\0\0\x09" + b"\x08\x06" + bytes(46)
FOREIGN_FRAMES = 300
"""More than a link carries without a load."""


@dataclass
class ForeignSender:
    """Another sender on the last VM's port."""

    sender: socket.socket | None = None

    def open(self, testbed: NetnsTestbed) -> None:
        """Open the sender; a Sabotage."""
        port = testbed.topology.ports_by_pair[0][-1].interface

        def open_in_namespace() -> socket.socket:
            opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
            opened.bind((port, 0))
            return opened

        self.sender = netlink.run_in_namespace(testbed.topology.switch_namespace, open_in_namespace)

    def send(self) -> bool:
        """Send frames in the middle of a trial, which polls this to know whether to stop."""
        assert self.sender is not None
        for _ in range(FOREIGN_FRAMES):
            self.sender.send(ARP_FRAME)
        return False


@pytest.fixture(scope="module")
def instrument() -> Iterator[LabInstrument]:
    with closing(LabInstrument(NetnsLab(TestbedSpec(), "a test"), TestbedSpec())) as lab_instrument:
        yield lab_instrument


def make_load(levels: Mapping[str, Level] | None = None, series: StepSeries | None = None) -> TrialLoad:
    defaults: dict[str, Level] = {"frame_load": LOW_LOAD_FPS, "device_cpus": "any"}
    factors = complete_levels({**defaults, **(levels or {})}, "frames")
    return TrialLoad(factors, 0.3, 0.05, "frames", step_series=series)


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
def test_frames_of_every_format_arrive_and_are_counted_by_direction(
    instrument: LabInstrument, levels: dict[str, Level]
) -> None:
    load = make_load(levels)
    measurement = instrument.measure(load, lambda: False).measurement
    counts = sum_endpoint_counts(measurement.endpoints, load.factors)
    assert counts.received_by_direction == counts.sent_by_direction
    assert set(counts.sent_by_direction) == (
        {"forward", "reverse"} if levels.get("direction") == "both" else {"forward"}
    )
    assert all(counts.sent_by_direction.values())
    assert (counts.duplicates, counts.out_of_order) == (0, 0)
    assert sum(count for _, count in counts.delay_histogram) == counts.total_received
    assert measurement.effective["generator"] and measurement.effective["sink"]


def run_search(
    instrument: LabInstrument, store: StepStore, search: SearchSpec, levels: Mapping[str, Level] | None = None
) -> CompletedTrial:
    return instrument.measure(make_load(levels, store.make_series(search)), lambda: False)


def test_a_search_on_a_testbed_ends_with_a_run_at_its_result(instrument: LabInstrument) -> None:
    store = StepStore()
    search = SearchSpec(
        "rfc2544", relative_width=0.5, step_s=0.1, max_load_fps=LOW_LOAD_FPS, min_load_fps=50.0
    )
    first = run_search(instrument, store, search).measurement
    result: Any = first.effective["search"]
    assert result["direction_count"] == 1 and result["final_load_fps"] >= 50
    assert first.steps == tuple(store.steps)
    second = run_search(instrument, store, search).measurement
    assert second.steps == first.steps
    assert second.effective["search"] == result


def test_a_port_that_is_down_is_refused() -> None:
    lab = BrokenLab(run_ip("link", "set", "{port}", "down"))
    with (
        closing(LabInstrument(lab, TestbedSpec())) as instrument,
        pytest.raises(TreatmentRefused, match="the interface is down, or has no link") as refused,
    ):
        instrument.measure(make_load(), lambda: False)
    assert refused.value.where == "b1"


@pytest.mark.parametrize(
    "command", [("link", "set", "{port}", "nomaster"), ("link", "set", "{port}", "mtu", "600")]
)
def test_a_device_that_loses_every_frame_is_refused_with_the_drop_location(command: tuple[str, ...]) -> None:
    store = StepStore()
    search = SearchSpec("rfc2544", step_s=0.1, max_load_fps=LOW_LOAD_FPS, min_load_fps=50.0)
    with (
        closing(LabInstrument(BrokenLab(run_ip(*command)), TestbedSpec())) as instrument,
        pytest.raises(TreatmentRefused, match=r"none of \d+ frames of the load arrived. The frames"),
    ):
        run_search(instrument, store, search, {"frame_size": 1518})
    assert store.steps == []


def test_a_device_that_returns_frames_to_their_sender_is_refused_as_a_loop() -> None:
    lab = BrokenLab(flood_frames(hairpin="on"))
    with (
        closing(LabInstrument(lab, TestbedSpec())) as instrument,
        pytest.raises(
            TreatmentRefused, match=r"the network has a loop: \d+ frames that a1 sent came back"
        ) as refused,
    ):
        instrument.measure(make_load(), lambda: False)
    assert "hairpin" in str(refused.value.fix)


def test_a_device_that_floods_frames_to_other_pairs_is_noted() -> None:
    # Both pairs must send at the same time, but they start one after the other: late on a busy machine.
    for duration_s in (1.0, 30.0):
        load = replace(make_load({"pairs": 2, "frame_load": 2000.0}), duration_s=duration_s)
        with closing(LabInstrument(BrokenLab(flood_frames()), TestbedSpec())) as instrument:
            measurement = instrument.measure(load, lambda: False).measurement
        flooded = [note for note in measurement.notes if "The device floods unknown addresses" in note]
        noted = {name for note in flooded for name in re.findall(r"arrived at (b\d)\.", note)}
        if noted == {"b1", "b2"}:
            break
    assert noted == {"b1", "b2"}
    assert not any("foreign" in note for note in measurement.notes)


def test_foreign_frames_are_noted_with_an_example() -> None:
    foreign = ForeignSender()
    with closing(LabInstrument(BrokenLab(foreign.open), TestbedSpec())) as instrument:
        measurement = instrument.measure(make_load(), foreign.send).measurement
    assert foreign.sender is not None
    foreign.sender.close()
    assert any(
        re.match(r"\d+ frames of other senders arrived at b1 \(for example ARP", note)
        for note in measurement.notes
    )
