"""Search parameters and deterministic devices for tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from vnetbench.search.interface import SearchParameters, SearchStep, SentAndReceivedFrames

PARAMETERS = SearchParameters(
    goals=(0.0, 0.0001, 0.005),
    relative_width=0.01,
    min_load_fps=1e3,
    max_load_fps=1.5e7,
    step_s=1.0,
    time_limit_s=180,
)


@dataclass
class ScriptedDevice:
    """A device whose lost frames are a function of load, duration and number of earlier steps."""

    lost: Callable[[float, float, int], float]
    steps: list[SearchStep] = field(default_factory=list)

    def measure(self, load_fps: float, duration_s: float) -> SentAndReceivedFrames:
        sent = round(load_fps * duration_s)
        lost = min(sent, int(self.lost(load_fps, duration_s, len(self.steps))))
        self.steps.append(SearchStep(load_fps, duration_s, sent, sent - lost))
        return SentAndReceivedFrames(sent, sent - lost)


def sharp_limit(limit_fps: float) -> Callable[[float, float, int], float]:
    """Return a loss function of a device that only loses frames above this load."""
    return lambda load_fps, duration_s, _: max(0.0, load_fps - limit_fps) * duration_s


@dataclass
class ReplayDevice:
    """A device that replays recorded steps and then calls another device."""

    recorded: Iterable[SearchStep]
    measure_next: Callable[[float, float], SentAndReceivedFrames]

    def __post_init__(self) -> None:
        self._remaining = list(self.recorded)

    def measure(self, load_fps: float, duration_s: float) -> SentAndReceivedFrames:
        if not self._remaining:
            return self.measure_next(load_fps, duration_s)
        step = self._remaining.pop(0)
        assert (step.load_fps, step.duration_s) == (load_fps, duration_s)
        return SentAndReceivedFrames(step.sent, step.received)
