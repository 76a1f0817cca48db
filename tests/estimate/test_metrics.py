"""Metrics of a trial from samples with known counters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests import fixtures
from vnetbench.estimate.metrics import METRICS, is_lower_better
from vnetbench.estimate.time_series import find_warmups, metric_time_series
from vnetbench.estimate.trial_metrics import trial_metrics
from vnetbench.results.records import EndpointRecord, Sample, TrialRecord
from vnetbench.study.model import Timing

STEADY = [8e9] * 20  # 50 MB in each 50 ms
COLD = [2e9] * 6 + [8e9] * 14


def test_every_metric_is_calculated_from_its_counters() -> None:
    found = trial_metrics(fixtures.make_trial(rates=STEADY), 0)
    assert found == pytest.approx(
        {
            "goodput_bps": 8e9,
            "sender_cpu_percent": 50.0,
            "receiver_cpu_percent": 50.0,
            "host_cpu_percent": 80.0,
            "host_softirq_percent": 20.0,
            "cycles_per_byte": 0.5,
            "packets_per_s": 1e9 / 9000,
            "mean_segment_bytes": 9000.0,
            "segments_per_s": 20 * (50_000_000 // 1448),
            "interrupts_per_s": 2000.0,
            "net_rx_softirqs_per_s": 1000.0,
            "packets_per_interrupt": 2 * 1e9 / 9000 / 1000,
            "context_switches_per_s": 2 * 11 * 20,
            "retransmits_per_s": 20.0,
            "rtt_us": 40.0,
        }
    )
    assert set(found) <= set(METRICS)


def test_an_endpoint_without_samples_has_no_invented_metrics() -> None:
    whole = fixtures.make_trial(rates=STEADY)
    sender, _, host = whole.endpoints
    totals = {
        "protocol": "iperf3",
        "cpu_percent": {"total": 42.0},
        "streams": [{"id": 0, "retransmits": None}],
    }
    receiver = EndpointRecord("esx-07", "sink", totals, ())
    found = trial_metrics(replace(whole, endpoints=(_acknowledged(sender, 0.9), receiver, host)), 0)
    everything = trial_metrics(whole, 0)
    assert set(everything) - set(found) == {
        "receiver_cpu_percent", "packets_per_s", "context_switches_per_s"
    }  # fmt: skip
    assert set(found) - set(everything) == {"server_cpu_percent"}
    assert found["server_cpu_percent"] == 42.0
    assert found["goodput_bps"] == pytest.approx(0.9 * everything["goodput_bps"])
    assert found["cycles_per_byte"] == pytest.approx(everything["cycles_per_byte"] / 0.9)


def test_a_sending_iperf3_server_has_only_the_metrics_that_it_reports() -> None:
    whole = fixtures.make_trial(rates=STEADY)
    _, receiver, host = whole.endpoints
    totals = {"protocol": "iperf3", "streams": [{"id": 0, "retransmits": 3}, {"id": 1, "retransmits": 4}]}
    found = trial_metrics(
        replace(whole, endpoints=(receiver, EndpointRecord("esx-07", "source", totals, ()), host)), 0
    )
    assert found["goodput_bps"] == pytest.approx(8e9)
    assert found["server_retransmits"] == 7
    assert not {"retransmits_per_s", "sender_cpu_percent", "rtt_us", "server_cpu_percent"} & set(found)


def test_every_metric_excludes_the_warm_up() -> None:
    cold, steady = (
        trial_metrics(fixtures.make_trial(rates=COLD), 6),
        trial_metrics(fixtures.make_trial(rates=STEADY), 0),
    )
    assert cold == pytest.approx(steady)
    assert trial_metrics(fixtures.make_trial(rates=COLD), 0)["goodput_bps"] == pytest.approx(6.2e9)


def test_a_missing_counter_makes_its_metrics_absent() -> None:
    trial = _without(fixtures.make_trial(rates=STEADY), {"cycles", "tx_packets"})
    found = trial_metrics(trial, 0)
    assert "cycles_per_byte" not in found
    assert "mean_segment_bytes" not in found
    assert found["goodput_bps"] == pytest.approx(8e9)


def test_bytes_that_arrive_after_the_load_do_not_count() -> None:
    trial = fixtures.make_trial(rates=STEADY)
    drained = [_later(side) for side in trial.endpoints]
    assert trial_metrics(replace(trial, endpoints=tuple(drained)), 0) == pytest.approx(
        trial_metrics(trial, 0)
    )


def test_a_late_sample_that_closes_two_intervals_keeps_bytes_and_time_together() -> None:
    """The result is the same for a late sample of either endpoint."""
    trial = fixtures.make_trial(rates=COLD)
    for late in (0, 1):
        sides = list(trial.endpoints)
        sides[late] = _closing_two(sides[late], 9)
        shifted = replace(trial, endpoints=tuple(sides))
        assert len(metric_time_series(shifted).values) == 19
        assert sum(metric_time_series(shifted).interval_lengths_s) == pytest.approx(1.0)
        assert trial_metrics(shifted, 0) == pytest.approx(trial_metrics(trial, 0))
        assert trial_metrics(shifted, 6) == pytest.approx(trial_metrics(trial, 6))


@pytest.mark.parametrize(("name_a", "name_b"), [("a1", "b1"), ("web-01", "web-02"), ("zone", "apache")])
def test_bidirectional_loads_have_metrics_for_each_direction_and_each_vm(name_a: str, name_b: str) -> None:
    forth, back = fixtures.make_trial(rates=STEADY), fixtures.make_trial(rates=[4e9] * 20)
    a = _both((forth.endpoints[0], 0), (back.endpoints[1], 1))
    b = _both((back.endpoints[0], 1), (forth.endpoints[1], 0))
    ends = sorted((replace(a, name=name_a), replace(b, name=name_b)), key=lambda side: side.name)
    trial = replace(forth, endpoints=(*ends, forth.endpoints[2]))
    found = trial_metrics(trial, 0)
    assert found["goodput_bps"] == pytest.approx(12e9)
    assert found["goodput_forward_bps"] == pytest.approx(8e9)
    assert found["goodput_reverse_bps"] == pytest.approx(4e9)
    # Both endpoints send and receive, so there is no sender CPU and no receiver CPU.
    assert found["first_vm_cpu_percent"] == found["second_vm_cpu_percent"] == pytest.approx(50.0)
    assert "sender_cpu_percent" not in found
    assert "receiver_cpu_percent" not in found
    assert set(found) <= set(METRICS)


def test_the_time_series_and_its_mean_match_the_metric() -> None:
    trial = fixtures.make_trial(rates=COLD)
    assert metric_time_series(trial).values == pytest.approx(COLD)
    for cut in (0, 6, 19):
        assert metric_time_series(trial).steady_value(cut) == pytest.approx(
            trial_metrics(trial, cut)["goodput_bps"]
        )


def test_a_fixed_warm_up_is_cut_and_leaves_a_sample() -> None:
    time_series = [metric_time_series(fixtures.make_trial(rates=STEADY))] * 3
    assert [w.samples for w in find_warmups(time_series, Timing(warmup_s=0.2))] == [4, 4, 4]
    assert [w.samples for w in find_warmups(time_series, Timing(warmup_s=60))] == [19, 19, 19]


def test_a_detected_warm_up_is_cut_completely() -> None:
    time_series = [metric_time_series(fixtures.make_trial(rates=COLD))] * 6
    found = find_warmups(time_series, Timing())
    assert all(w.samples >= 6 and w.has_steady_state for w in found)
    assert all(
        c.steady_value(w.samples) == pytest.approx(8e9) for c, w in zip(time_series, found, strict=True)
    )


def test_lower_is_better_only_for_metrics_that_say_so() -> None:
    assert is_lower_better("latency_p99_us") and is_lower_better("retransmits_per_s")
    assert not is_lower_better("goodput_bps") and not is_lower_better("packets_per_s")
    assert not is_lower_better("of_another_version")


def test_a_trial_without_samples_is_an_error() -> None:
    trial = fixtures.make_trial(rates=STEADY)
    empty = replace(trial, endpoints=tuple(replace(s, samples=()) for s in trial.endpoints))
    with pytest.raises(ValueError, match="no samples"):
        trial_metrics(empty, 0)


def _without(trial: TrialRecord, counters: set[str]) -> TrialRecord:
    def bare(sample: Sample) -> Sample:
        return replace(sample, counters={k: v for k, v in sample.counters.items() if k not in counters})

    return replace(
        trial, endpoints=tuple(replace(s, samples=tuple(bare(x) for x in s.samples)) for s in trial.endpoints)
    )


def _later(side: EndpointRecord) -> EndpointRecord:
    last = side.samples[-1]
    return replace(side, samples=(*side.samples, replace(last, seq=last.seq + 1, end_s=last.end_s + 0.05)))


def _both(sent: tuple[EndpointRecord, int], taken: tuple[EndpointRecord, int]) -> EndpointRecord:
    """Return an endpoint with the streams of a source and of a sink, with the given stream numbers."""
    (source, first), (sink, second) = sent, taken
    samples = tuple(
        replace(
            s,
            bytes_received=r.bytes_received,
            streams=(
                *(replace(x, stream_id=first) for x in s.streams),
                *(replace(x, stream_id=second) for x in r.streams),
            ),
        )
        for s, r in zip(source.samples, sink.samples, strict=True)
    )
    return replace(source, role="both", samples=samples)


def _closing_two(side: EndpointRecord, at: int) -> EndpointRecord:
    first, second = side.samples[at : at + 2]
    both = replace(
        second,
        interval_s=first.interval_s + second.interval_s,
        bytes_sent=first.bytes_sent + second.bytes_sent,
        bytes_received=first.bytes_received + second.bytes_received,
        counters={k: first.counters[k] + second.counters[k] for k in first.counters},
        streams=tuple(
            replace(
                y,
                bytes=x.bytes + y.bytes,
                retransmits=(x.retransmits or 0) + (y.retransmits or 0),
                details={"segments_out": x.details["segments_out"] + y.details["segments_out"]},  # type: ignore[operator]
            )
            for x, y in zip(first.streams, second.streams, strict=True)
        ),
    )
    return replace(side, samples=(*side.samples[:at], both, *side.samples[at + 2 :]))


def _acknowledged(side: EndpointRecord, share: float) -> EndpointRecord:
    """Return the endpoint with this share of the bytes sent acknowledged in each interval."""

    def acknowledged(sample: Sample) -> Sample:
        streams = tuple(
            replace(stream, details={**stream.details, "bytes_acked": int(share * stream.bytes)})
            for stream in sample.streams
        )
        return replace(sample, streams=streams)

    return replace(side, samples=tuple(acknowledged(sample) for sample in side.samples))
