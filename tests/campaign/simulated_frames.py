"""An instrument for frames without a network: a simulated device between two ports that were never made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from bench.simulated_devices import DeviceModel, SimulatedDevice
from tests import fixtures
from vnetbench.campaign.instrument import CompletedTrial, NewFacts
from vnetbench.campaign.step_series import run_step_series
from vnetbench.campaign.trial import TrialLoad, TrialMeasurement
from vnetbench.search.interface import Device


@dataclass
class SimulatedPorts:
    """Ports at both sides of a device, and a generator that can so much in each direction."""

    device: Device = field(default_factory=lambda: SimulatedDevice(DeviceModel(limit_fps=100_000.0), 1))
    most_fps: float = 1_000_000.0
    before: Callable[[int], None] = lambda number: None
    """May raise; is told how many runs there have been."""
    asked: list[TrialLoad] = field(default_factory=list)
    """The load of every run, those of steps too."""

    def once(self, load: TrialLoad) -> TrialMeasurement:
        """One run."""
        self.asked.append(load)
        self.before(len(self.asked) - 1)
        level = load.factors["frame_load"]
        fps = self.most_fps if level == "max" else min(self.most_fps, float(level))
        if load.burst_frames is not None:
            counted = self.device.measure(fps, load.burst_frames / fps)
        else:
            counted = self.device.measure(fps, load.duration_s)
        sides = fixtures.frame_endpoint_records(
            load.duration_s, load.interval_s, counted.sent, counted.received
        )
        return TrialMeasurement(sides, {}, ())

    def measure(self, load: TrialLoad, should_abandon: Callable[[], bool]) -> CompletedTrial:
        """See Instrument."""
        found = run_step_series(load, load.step_series, self.once) if load.step_series else self.once(load)
        return CompletedTrial(
            replace(found, effective={"mtu": 1500, **found.effective}), "bridge pairs=1", 0.01
        )

    def take_new_facts(self) -> NewFacts:
        """See Instrument."""
        return NewFacts()

    def close(self) -> None:
        """See Instrument."""
