"""A simulated instrument for workloads of frames: a simulated device between two simulated ports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from bench.simulated_devices import DeviceModel, SimulatedDevice
from tests import fixtures
from vnetbench.campaign.instrument import CompletedTrial, NewFacts
from vnetbench.campaign.step_series import run_step_series_and_final_run
from vnetbench.campaign.trial import TrialLoad, TrialMeasurement
from vnetbench.search.interface import Device


@dataclass
class SimulatedPorts:
    """Ports on both sides of a device, and a generator with a maximum rate."""

    device: Device = field(default_factory=lambda: SimulatedDevice(DeviceModel(limit_fps=100_000.0), 1))
    max_fps: float = 1_000_000.0
    """Maximum rate of the generator per direction."""
    before: Callable[[int], None] = lambda number: None
    """Called before each run with the number of earlier runs; may raise."""
    loads: list[TrialLoad] = field(default_factory=list)
    """The load of every run, including runs of steps."""

    def run_once(self, load: TrialLoad) -> TrialMeasurement:
        """Return the measurement of one run."""
        self.loads.append(load)
        self.before(len(self.loads) - 1)
        level = load.factors["frame_load"]
        fps = self.max_fps if level == "max" else min(self.max_fps, float(level))
        if load.burst_frames is not None:
            count = self.device.measure(fps, load.burst_frames / fps)
        else:
            count = self.device.measure(fps, load.duration_s)
        endpoints = fixtures.frame_endpoint_records(
            load.duration_s, load.interval_s, count.sent, count.received
        )
        return TrialMeasurement(endpoints, {}, ())

    def measure(self, load: TrialLoad, should_abandon: Callable[[], bool]) -> CompletedTrial:
        """See Instrument."""
        if load.step_series:
            measurement = run_step_series_and_final_run(load, load.step_series, self.run_once)
        else:
            measurement = self.run_once(load)
        return CompletedTrial(
            replace(measurement, effective={"mtu": 1500, **measurement.effective}), "bridge pairs=1", 0.01
        )

    def take_new_facts(self) -> NewFacts:
        """See Instrument."""
        return NewFacts()

    def close(self) -> None:
        """See Instrument."""
