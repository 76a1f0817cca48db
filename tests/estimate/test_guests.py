"""CPU metrics of guests by their own kernels and by the host, from samples with known counters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests import fixtures
from vnetbench.estimate.metrics import METRICS
from vnetbench.estimate.trial_metrics import trial_metrics
from vnetbench.results.records import EndpointRecord, Observation, Sample, TrialRecord

STEADY = [8e9] * 20
OF_GUESTS = {
    "sender_busy_percent", "receiver_busy_percent", "sender_vcpu_percent", "receiver_vcpu_percent",
    "vcpus_cpu_percent", "busiest_vcpu_percent", "emulators_cpu_percent", "switch_drops_per_s",
    "kvm_exits_per_s",
}  # fmt: skip
THREADS = {
    "a1 vcpu0": 0.01, "a1 emulator": 0.004, "a1 vhost0": 0.001,
    "b1 vcpu0": 0.05, "b1 vcpu1": 0.02, "b1 emulator": 0.005,
}  # fmt: skip
PORTS = {
    "a1": {"rx_packets": 9, "tx_packets": 9, "rx_dropped": 0, "tx_dropped": 2},
    "sw0": {"rx_packets": 0, "tx_packets": 0, "rx_dropped": 1, "tx_dropped": 0},
}


def guests(
    threads: dict[str, float] = THREADS,
    exits: dict[str, int] | None = None,
    rates: list[float] = STEADY,
) -> TrialRecord:
    """Return a trial whose first guest is idle 75 % of the time and its second 40 %, by their own counts."""
    trial = fixtures.make_trial(rates=rates)
    a, b, host = trial.endpoints
    observation = Observation(threads, PORTS, exits)
    return replace(
        trial,
        endpoints=(
            _with_cpu(a, {"cpu": 0, "user_s": 0.0125, "idle_s": 0.0375}),
            _with_cpu(b, {"cpu": 0, "softirq_s": 0.03, "idle_s": 0.02}),
            replace(host, samples=tuple(replace(x, observation=observation) for x in host.samples)),
        ),
    )


def test_guest_cpu_and_host_view_of_its_vcpus_are_separate_metrics() -> None:
    found = trial_metrics(guests(exits={"exits": 100, "io_exits": 40}), 0)
    assert {name: found[name] for name in OF_GUESTS} == pytest.approx(
        {
            "sender_busy_percent": 25.0,
            "receiver_busy_percent": 60.0,
            "sender_vcpu_percent": 20.0,
            "receiver_vcpu_percent": 70.0,
            "vcpus_cpu_percent": 160.0,
            "busiest_vcpu_percent": 100.0,
            "emulators_cpu_percent": 20.0,
            "switch_drops_per_s": 60.0,
            "kvm_exits_per_s": 2000.0,
        }
    )
    assert set(found) <= set(METRICS)
    without = trial_metrics(fixtures.make_trial(rates=STEADY), 0)
    assert {name: found[name] for name in without} == pytest.approx(without)


def test_without_observations_the_metrics_are_absent() -> None:
    assert not OF_GUESTS & set(trial_metrics(fixtures.make_trial(rates=STEADY), 0))


def test_unknown_kvm_exits_are_not_reported_as_zero() -> None:
    assert "kvm_exits_per_s" not in trial_metrics(guests(), 0)


def test_observations_in_the_warm_up_do_not_count() -> None:
    cold = guests(rates=[2e9] * 6 + [8e9] * 14)
    *ends, host = cold.endpoints
    busy = Observation(dict.fromkeys(THREADS, 0.05), PORTS, None)
    warming = tuple(replace(x, observation=busy) if x.seq < 6 else x for x in host.samples)
    found = trial_metrics(replace(cold, endpoints=(*ends, replace(host, samples=warming))), 6)
    assert found["vcpus_cpu_percent"] == pytest.approx(160.0)


def test_bidirectional_loads_have_metrics_for_each_vm() -> None:
    trial = guests()
    both = [replace(side, role="both") if side.role != "observe" else side for side in trial.endpoints]
    found = trial_metrics(replace(trial, endpoints=tuple(both)), 0)
    assert (found["first_vm_vcpu_percent"], found["second_vm_vcpu_percent"]) == pytest.approx((20.0, 70.0))
    assert (found["first_vm_busy_percent"], found["second_vm_busy_percent"]) == pytest.approx((25.0, 60.0))
    assert "receiver_busy_percent" not in found


def test_a_forwarding_guest_has_its_own_metrics() -> None:
    trial = guests({"g1 vcpu0": 0.05, "g1 emulator": 0.01})
    a, b, host = fixtures.make_trial(rates=STEADY).endpoints
    watching = trial.endpoints[2]
    between = _with_cpu(replace(host, name="g1"), {"cpu": 0, "softirq_s": 0.035, "idle_s": 0.015})
    for sides in ((a, b, between, watching), (a, b, watching, between)):
        found = trial_metrics(replace(trial, endpoints=sides), 0)
        assert found["forwarder_busy_percent"] == pytest.approx(70.0)
        assert found["forwarder_vcpu_percent"] == pytest.approx(100.0)
        assert found["host_cpu_percent"] == pytest.approx(80.0)
        assert "receiver_vcpu_percent" not in found


def _with_cpu(side: EndpointRecord, times: dict[str, float]) -> EndpointRecord:
    def busy(sample: Sample) -> Sample:
        return replace(sample, cpu=(times,))

    return replace(side, samples=tuple(map(busy, side.samples)))
