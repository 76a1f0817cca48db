"""Evidence of the instrument from the totals of agents."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.estimate.evidence.fixtures import change_endpoint, trial_evidence, uniform_trial, with_totals
from vnetbench.results.records import EndpointRecord


def test_late_samples_lost_samples_and_instrument_cpu_are_reported() -> None:
    instrument = {"sampler_lateness_max_s": 0.01, "sampler_cpu_s": 0.02, "events_lost": 3}
    trial = with_totals(with_totals(uniform_trial(), "a1", instrument=instrument), "host", bench_cpu_s=0.03)
    evidence = trial_evidence(trial)
    assert evidence["sampler_late_percent"] == pytest.approx(20)
    assert evidence["sampler_cpu_percent"] == pytest.approx(5)
    assert evidence["samples_lost"] == 3
    assert "generator_limited" not in evidence


def test_the_short_sample_after_a_late_one_does_not_change_the_lateness() -> None:
    def late(side: EndpointRecord) -> EndpointRecord:
        one, two, *others = side.samples
        samples = (replace(one, end_s=0.09, interval_s=0.09), replace(two, interval_s=0.01), *others)
        return replace(side, samples=samples)

    trial = with_totals(uniform_trial(), "a1", instrument={"sampler_lateness_max_s": 0.04})
    assert trial_evidence(change_endpoint(trial, "a1", late))["sampler_late_percent"] == pytest.approx(80)


@pytest.mark.parametrize(("sent", "limited"), [(1000, 0), (980, 1)])
def test_a_rate_that_is_not_achieved_is_a_generator_limit(sent: int, limited: int) -> None:
    evidence = trial_evidence(
        with_totals(uniform_trial(), "a1", instrument={"pacing": {"due": 1000, "sent": sent}})
    )
    assert evidence["rate_achieved_percent"] == pytest.approx(sent / 10)
    assert evidence["generator_limited"] == limited


def test_frames_that_were_not_generated_are_a_generator_limit() -> None:
    streams = [{"id": 0, "role": "source", "pacing": {"due": 1000, "unsent": 100}}]
    assert trial_evidence(with_totals(uniform_trial(), "a1", streams=streams))[
        "rate_achieved_percent"
    ] == pytest.approx(90)


def test_a_search_limited_by_the_generator_is_marked() -> None:
    answer = {"throughput_fps": 1000.0, "low_fps": 900.0, "high_fps": 1100.0, "confidence": None}

    def limited(*by: str) -> float:
        answers = [{**answer, "goal": 0.01 * number, "limited_by": each} for number, each in enumerate(by)]
        search = {"direction_count": 1, "frame_bytes": 64, "goal_results": answers}
        return trial_evidence(uniform_trial(search=search))["generator_limited"]

    assert (limited("generator"), limited("device")) == (1, 0)
    assert limited("device", "generator") == 0, "the limit of the first accepted share counts"


def test_a_search_has_no_rate_evidence_and_excludes_bench_cpu() -> None:
    answer = {"goal": 0.0, "throughput_fps": 1.0, "low_fps": 1.0, "high_fps": 1.0, "confidence": None}
    search = {"direction_count": 1, "frame_bytes": 64, "goal_results": [{**answer, "limited_by": "device"}]}
    trial = with_totals(uniform_trial(search=search), "host", bench_cpu_s=0.9)
    instrument = {"sampler_cpu_s": 0.02, "pacing": {"due": 1000, "sent": 400}}
    evidence = trial_evidence(with_totals(trial, "a1", instrument=instrument))
    assert evidence["sampler_cpu_percent"] == pytest.approx(2)
    assert "rate_achieved_percent" not in evidence


def test_delay_line_overflows_and_refused_frames_count_as_its_drops() -> None:
    forward = {"frames": 950, "queue_drops": 20, "port_drops": 30, "lost": 400}
    reverse = {"frames": 1000, "queue_drops": 0, "port_drops": 0, "lost": 0}
    lines = [{"forward": {"counts": forward}, "reverse": {"counts": reverse}}]
    evidence = trial_evidence(with_totals(uniform_trial(), "host", delay_lines=lines))
    assert evidence["delay_line_drop_percent"] == pytest.approx(5)
