"""Evidence of the instrument: each figure from what agents say at the end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.estimate.evidence.fixtures import at, even, evidence, with_totals
from vnetbench.results.records import EndpointRecord


def test_late_samples_lost_ones_and_what_the_instrument_takes() -> None:
    told = {"sampler_late_max_s": 0.01, "sampler_cpu_s": 0.02, "events_lost": 3}
    trial = with_totals(with_totals(even(), "a1", instrument=told), "host", bench_cpu_s=0.03)
    found = evidence(trial)
    assert found["sampler_late_percent"] == pytest.approx(20)
    assert found["sampler_cpu_percent"] == pytest.approx(5)
    assert found["samples_lost"] == 3
    assert "generator_limited" not in found


def test_the_short_sample_after_a_late_one_is_no_measure_of_lateness() -> None:
    def late(side: EndpointRecord) -> EndpointRecord:
        one, two, *others = side.samples
        samples = (replace(one, t_s=0.09, interval_s=0.09), replace(two, interval_s=0.01), *others)
        return replace(side, samples=samples)

    trial = with_totals(even(), "a1", instrument={"sampler_late_max_s": 0.04})
    assert evidence(at(trial, "a1", late))["sampler_late_percent"] == pytest.approx(80)


@pytest.mark.parametrize(("sent", "limited"), [(1000, 0), (980, 1)])
def test_a_rate_that_is_not_kept_is_the_generators_limit(sent: int, limited: int) -> None:
    found = evidence(with_totals(even(), "a1", instrument={"pacing": {"due": 1000, "sent": sent}}))
    assert found["rate_achieved_percent"] == pytest.approx(sent / 10)
    assert found["generator_limited"] == limited


def test_frames_that_were_never_made_are_the_generators_limit() -> None:
    streams = [{"id": 0, "role": "source", "pacing": {"due": 1000, "unsent": 100}}]
    assert evidence(with_totals(even(), "a1", streams=streams))["rate_achieved_percent"] == pytest.approx(90)


def test_a_search_that_ended_at_the_generators_most_says_so() -> None:
    answer = {"throughput_fps": 1000.0, "low_fps": 900.0, "high_fps": 1100.0, "confidence": None}

    def limited(*by: str) -> float:
        answers = [{**answer, "goal": 0.01 * number, "limited_by": each} for number, each in enumerate(by)]
        search = {"direction_count": 1, "frame_bytes": 64, "goal_results": answers}
        return evidence(even(search=search))["generator_limited"]

    assert (limited("generator"), limited("device")) == (1, 0)
    assert limited("device", "generator") == 0, "what limits is told of the first accepted share"


def test_with_a_search_neither_its_last_run_nor_preparing_it_is_the_benchs_limit() -> None:
    answer = {"goal": 0.0, "throughput_fps": 1.0, "low_fps": 1.0, "high_fps": 1.0, "confidence": None}
    search = {"direction_count": 1, "frame_bytes": 64, "goal_results": [{**answer, "limited_by": "device"}]}
    trial = with_totals(even(search=search), "host", bench_cpu_s=0.9)
    told = {"sampler_cpu_s": 0.02, "pacing": {"due": 1000, "sent": 400}}
    found = evidence(with_totals(trial, "a1", instrument=told))
    assert found["sampler_cpu_percent"] == pytest.approx(2)
    assert "rate_achieved_percent" not in found


def test_what_a_delay_line_had_no_room_for_or_could_not_give_away_is_its_own_loss() -> None:
    forward = {"frames": 950, "overflowed": 20, "refused": 30, "lost": 400}
    reverse = {"frames": 1000, "overflowed": 0, "refused": 0, "lost": 0}
    lines = [{"forward": {"counts": forward}, "reverse": {"counts": reverse}}]
    found = evidence(with_totals(even(), "host", delay_lines=lines))
    assert found["delay_line_drop_percent"] == pytest.approx(5)
