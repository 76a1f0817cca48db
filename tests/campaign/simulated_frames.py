"""An instrument for frames without a network: a simulated device between two ports that were never made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tests import fixtures
from vnetbench.campaign.instrument import Done, Learned
from vnetbench.campaign.step_series import run_series
from vnetbench.campaign.trial import Load, Measured
from vnetbench.search.interface import Device
from bench.simulated_devices import Physics, SimulatedDevice


@dataclass
class SimulatedPorts:
    """Ports at both sides of a device, and a generator that can so much in each direction."""

    device: Device = field(default_factory=lambda: SimulatedDevice(Physics(limit_fps=100_000.0), 1))
    most_fps: float = 1_000_000.0
    before: Callable[[int], None] = lambda number: None
    """May raise; is told how many runs there have been."""
    asked: list[Load] = field(default_factory=list)
    """The load of every run, those of steps too."""

    def once(self, load: Load) -> Measured:
        """One run."""
        self.asked.append(load)
        self.before(len(self.asked) - 1)
        level = load.factors["frame_load"]
        fps = self.most_fps if level == "max" else min(self.most_fps, float(level))
        if load.burst_frames is not None:
            counted = self.device.measure(fps, load.burst_frames / fps)
        else:
            counted = self.device.measure(fps, load.duration_s)
        sides = fixtures.frame_sides(load.duration_s, load.interval_s, counted.sent, counted.received)
        return Measured(sides, {}, ())

    def measure(self, load: Load, is_given_up: Callable[[], bool]) -> Done:
        """See Instrument."""
        found = run_series(load, load.series, self.once) if load.series else self.once(load)
        return Done(replace(found, effective={"mtu": 1500, **found.effective}), "bridge pairs=1", 0.01)

    def learned(self) -> Learned:
        """See Instrument."""
        return Learned()

    def close(self) -> None:
        """See Instrument."""
