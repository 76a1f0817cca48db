"""What a campaign measures with: trials on testbeds of the lab, raised as treatments need them."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from vnetbench.agents.client import AgentClient, AgentError
from vnetbench.agents.launch import start_observer
from vnetbench.campaign.calibration import TRIAL_S, calibrate
from vnetbench.campaign.environment_facts import endpoint_facts
from vnetbench.campaign.trial_notes import device_remarks
from vnetbench.campaign.step_series import run_series
from vnetbench.campaign.trial import Load, Measured, measure
from vnetbench.errors import BenchError
from vnetbench.lab import cpu_quota
from vnetbench.lab.testbed import Bed, Lab
from vnetbench.lab.knobs import changed_since
from vnetbench.lab.errors import TreatmentRefused, TrialFailed
from vnetbench.study.model import TestbedAsked
from vnetbench.study.workloads import OF_FRAMES


@dataclass
class Learned:
    """What became known on the way, to be kept once: testbeds by their shape, facts by their place."""

    testbeds: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    facts: dict[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Done:
    """One trial as measured, the testbed that it ran on, and the seconds that it cost beside its load."""

    measured: Measured
    shape: str
    setup_s: float


class Instrument(Protocol):
    """What runs a trial. It lives, and must be closed."""

    def measure(self, load: Load, is_given_up: Callable[[], bool]) -> Done:
        """Run one trial; raises TreatmentRefused, TrialFailed, or Abandoned once `is_given_up` says so."""

    def learned(self) -> Learned:
        """What became known since this was asked last."""

    def close(self) -> None:
        """End and remove all that was made."""


Around = Callable[[Bed, Load], AbstractContextManager[Bed]]
"""What surrounds a trial once its testbed is set and proved; it gives the testbed that is measured on."""


def nothing_around(bed: Bed, load: Load) -> AbstractContextManager[Bed]:
    """The testbed as it is."""
    return nullcontext(bed)


class LabInstrument:
    """Trials on the testbeds of a lab. They are kept for the next treatment of their shape."""

    def __init__(self, lab: Lab, asked: TestbedAsked, around: Around = nothing_around) -> None:
        self._lab = lab
        self._asked = asked
        self._around = around
        self._label = f"run-{secrets.token_hex(3)}"
        self._raised = 0
        self._beds: OrderedDict[Hashable, Bed] = OrderedDict()
        self._observer: AgentClient | None = None
        self._learned = Learned()
        self._known: set[Hashable] = set()

    def measure(self, load: Load, is_given_up: Callable[[], bool]) -> Done:
        """See Instrument."""
        shape = self._lab.shape(load.factors)
        calibration = load.calibration
        known = len(load.series.recorded()) if load.series else 0
        try:
            if load.factors.get("send_mode") == "auto":
                calibration = (
                    calibration or calibrate(lambda mode: self._goodput(load, mode, is_given_up)).as_json()
                )
                load = _sending_by(load, str(calibration["send_mode"]))
            # What a calibration takes is spent once, and says nothing of what trials cost.
            began = time.monotonic()
            measured, effective = self._on_testbed(shape, load, is_given_up)
        except AgentError as error:
            self._discard(shape)
            raise TrialFailed(str(error)) from error
        except BaseException:
            self._discard(shape)
            raise
        effective = {**effective, **measured.effective}
        if calibration is not None:
            effective["calibration"] = calibration
        notes = (*device_remarks(effective), *measured.notes)
        found = replace(measured, effective=effective, notes=notes)
        spent_s = time.monotonic() - began - load.duration_s
        fresh = measured.steps[known:]
        return Done(found, str(shape), max(0.0, spent_s - sum(step.took_s for step in fresh)))

    def _goodput(self, load: Load, mode: str, is_given_up: Callable[[], bool]) -> float:
        """Bits a second of a short trial by this send mode."""
        short = replace(_sending_by(load, mode), duration_s=TRIAL_S)
        measured, _ = self._on_testbed(self._lab.shape(load.factors), short, is_given_up)
        return 8 * sum(side.bytes_received for side in measured.sides) / TRIAL_S

    def _on_testbed(
        self, shape: Hashable, load: Load, is_given_up: Callable[[], bool]
    ) -> tuple[Measured, Mapping[str, Any]]:
        while True:
            is_new = shape not in self._beds
            try:
                bed = self._bed(shape)
                effective = bed.apply(load.factors, self._asked)
                with self._around(bed, load) as around:
                    measured = self._measure(around, load, is_given_up)
                    return _with_knobs(measured, _changed(effective, around, load)), effective
            except BenchError as error:
                self._discard(shape)
                if is_new:
                    raise _as_refusal(error) from error
                # Something may have happened to it since it was raised: only a new one's refusal counts.

    def _measure(self, bed: Bed, load: Load, is_given_up: Callable[[], bool]) -> Measured:
        def once(load: Load) -> Measured:
            return measure(bed, self._watcher(), load, is_given_up)

        return run_series(load, load.series, once) if load.series else once(load)

    def learned(self) -> Learned:
        """See Instrument."""
        news, self._learned = self._learned, Learned()
        return news

    def close(self) -> None:
        """See Instrument; also removes what was broken off while it was raised."""
        while self._beds:
            self._beds.popitem()[1].close()
        self._lab.remove_left(f"{self._label}-")
        self._close_watcher()

    def _bed(self, shape: Hashable) -> Bed:
        if shape not in self._beds:
            while len(self._beds) >= self._lab.most_kept:
                self._beds.popitem(last=False)[1].close()
            self._raised += 1
            bed = self._lab.raise_bed(f"{self._label}-{self._raised}", shape)
            self._beds[shape] = bed
            if shape not in self._known:
                self._learned.testbeds[str(shape)] = bed.as_facts()
                self._learned.facts.update(endpoint_facts(bed, self._watcher()))
                self._known.add(shape)
        self._beds.move_to_end(shape)
        return self._beds[shape]

    def _watcher(self) -> AgentClient:
        """The agent on the bench's own host."""
        if self._observer is None:
            self._observer = start_observer(self._label)
        return self._observer

    def _discard(self, shape: Hashable) -> None:
        """Close the testbed of this shape, and the observer: the next trial gets new ones."""
        if bed := self._beds.pop(shape, None):
            bed.close()
        self._close_watcher()

    def _close_watcher(self) -> None:
        if self._observer is not None:
            observer, self._observer = self._observer, None
            observer.close()


def _changed(effective: Mapping[str, Any], bed: Bed, load: Load) -> Mapping[str, object]:
    """Knobs that something else has set; of frames they are set by the programs that make and count them."""
    if load.workload in OF_FRAMES:
        return {}
    changed = changed_since(effective, bed.endpoints, bed.agents)
    if cpu_quota.FACTOR in effective:
        changed |= cpu_quota.changed_since(effective, cpu_quota.pids_of(bed.endpoints, bed.agents))
    return changed


def _with_knobs(measured: Measured, changed: Mapping[str, object]) -> Measured:
    """A trial during which something else set knobs: what it ended with counts, and is said."""
    notes = tuple(f"{knob} was set by something else while this was measured" for knob in changed)
    return replace(measured, effective={**measured.effective, **changed}, notes=(*measured.notes, *notes))


def _sending_by(load: Load, mode: str) -> Load:
    return replace(load, factors={**load.factors, "send_mode": mode})


def _as_refusal(error: BenchError) -> TreatmentRefused:
    """A testbed that cannot be built stops the treatments that need it, and no others."""
    if isinstance(error, TreatmentRefused):
        return error
    return TreatmentRefused(error.what, where=error.where, fix=error.fix)
