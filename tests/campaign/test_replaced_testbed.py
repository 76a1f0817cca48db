"""Why an instrument replaced a testbed. A refusal under load does not show that a program changed it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from vnetbench.campaign import instrument as instrument_module
from vnetbench.campaign.instrument import LabInstrument
from vnetbench.campaign.trial import TrialLoad, TrialMeasurement
from vnetbench.errors import BenchError
from vnetbench.failure_kinds import PATH_BLOCKED, TESTBED_CHANGED
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.model import TestbedSpec

pytestmark = pytest.mark.pure

Check = Callable[[], None]


class FakeTestbed:
    """A testbed that fails its check once, if requested."""

    def __init__(self, checks: list[Check]) -> None:
        self.agents: dict[str, Any] = {}
        self.endpoints: tuple[Any, ...] = ()
        self._checks = checks

    def set_knobs_and_prove_paths(self, *_: object) -> dict[str, Any]:
        if self._checks:
            self._checks.pop()()
        return {}

    def machines_to_audit(self) -> Mapping[str, Any]:
        return {}

    def describe(self) -> Mapping[str, object]:
        return {}

    def close(self) -> None:
        pass


class FakeLab:
    max_testbeds = 1

    def __init__(self) -> None:
        self.checks: list[Check] = []

    def testbed_shape(self, _: object) -> str:
        return "bridge"

    def create_testbed(self, *_: object) -> FakeTestbed:
        return FakeTestbed(self.checks)

    def remove_unfinished_testbeds(self, _: str) -> None:
        pass


class FakeObserver:
    def close(self) -> None:
        pass


def fail_with(error: BenchError) -> Check:
    def fail() -> None:
        raise error

    return fail


def measure_with_failure(
    monkeypatch: pytest.MonkeyPatch,
    *,
    in_check: BenchError | None = None,
    under_load: BenchError | None = None,
) -> TrialMeasurement:
    """Return the second trial of a testbed, which fails once in its check or under load."""
    lab = FakeLab()
    failures: list[BenchError] = []

    def measure_trial(*_: object) -> TrialMeasurement:
        if failures:
            raise failures.pop()
        return TrialMeasurement((), {}, ())

    monkeypatch.setattr(instrument_module, "measure_trial", measure_trial)
    monkeypatch.setattr(instrument_module, "start_observer", lambda _: FakeObserver())
    monkeypatch.setattr(instrument_module, "read_endpoint_facts", lambda *_: {})
    monkeypatch.setattr(instrument_module, "_find_externally_changed_settings", lambda *_: {})
    load = TrialLoad(complete_levels({}), 0.2, 0.05)
    instrument = LabInstrument(lab, TestbedSpec())  # type: ignore[arg-type]
    first = instrument.measure(load, lambda: False).measurement
    assert "replaced_testbed" not in first.effective
    if in_check is not None:
        lab.checks.append(fail_with(in_check))
    if under_load is not None:
        failures.append(under_load)
    return instrument.measure(load, lambda: False).measurement


@pytest.mark.parametrize("kind", ["", "mptcp"])
def test_a_refusal_under_load_keeps_its_own_kind(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    refusal = TreatmentRefused("pacing_rate = 1 Gbit/s was exceeded", kind=kind)
    replaced = measure_with_failure(monkeypatch, under_load=refusal).effective["replaced_testbed"]
    assert isinstance(replaced, dict)
    assert replaced.get("failure_kind", "") == kind
    assert replaced["failure"] == "pacing_rate = 1 Gbit/s was exceeded"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (TreatmentRefused("mtu = 9000 had no effect"), TESTBED_CHANGED),
        (BenchError("the interface does not exist"), TESTBED_CHANGED),
        (TreatmentRefused("no packet passes", kind=PATH_BLOCKED), PATH_BLOCKED),
    ],
)
def test_a_testbed_that_fails_its_check_was_changed_unless_the_check_knows_more(
    monkeypatch: pytest.MonkeyPatch, error: BenchError, kind: str
) -> None:
    measurement = measure_with_failure(monkeypatch, in_check=error)
    assert measurement.effective["replaced_testbed"] == {"failure_kind": kind, "failure": error.what}
    assert any("was created anew before this trial" in note for note in measurement.notes)
