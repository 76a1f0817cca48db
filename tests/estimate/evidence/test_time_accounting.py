"""Time accounting from known counters: the shares add up, and each station gets its own share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.estimate.evidence.fixtures import (
    change_endpoint,
    trial_data,
    trial_evidence,
    uniform_trial,
    with_counters,
    with_cpus,
    with_stream_details,
    with_totals,
)
from vnetbench.estimate.evidence.time_accounting.cpu_use import largest_programs_share
from vnetbench.results.records import HOST, EndpointRecord, Histogram, TrialRecord

SAMPLE_S = 0.05
"""Length of each sample of `uniform_trial`."""


def busy_cpu(share: float) -> dict[str, float]:
    """Return the times of a CPU in one sample, busy for a share of it."""
    return {"system_s": share * SAMPLE_S, "idle_s": (1 - share) * SAMPLE_S}


def trial_with_threads(
    sender: tuple[float, float], receiver: tuple[float, float], *cpus: dict[str, float], threads: float = 1
) -> TrialRecord:
    """Return a trial on the host's CPUs.

    Args:
        sender: Shares of the time in which a sending thread runs and waits for a CPU.
        receiver: The same of a receiving thread.
        cpus: Times of the host's CPUs in each sample.
        threads: Number of threads of each endpoint.
    """
    trial = uniform_trial()
    for name, (running, waiting) in (("a1", sender), ("b1", receiver)):
        trial = with_counters(
            trial, name,
            threads_cpu_s=threads * running * SAMPLE_S, threads_waited_s=threads * waiting * SAMPLE_S,
            load_threads=threads, process_cpu_user_s=0.0, process_cpu_system_s=threads * running * SAMPLE_S,
        )  # fmt: skip
    trial = with_counters(trial, HOST, process_cpu_user_s=0.0, process_cpu_system_s=0.0)
    return with_cpus(trial, HOST, *cpus)


def with_histograms(
    trial: TrialRecord, endpoint: str, histograms: Sequence[Mapping[str, Histogram]]
) -> TrialRecord:
    """Return the trial with these histograms in the samples of an endpoint."""
    return change_endpoint(
        trial,
        endpoint,
        lambda record: replace(
            record,
            samples=tuple(
                replace(sample, histograms=each)
                for sample, each in zip(record.samples, histograms, strict=True)
            ),
        ),
    )


def shares(trial: TrialRecord) -> dict[str, float]:
    """Return the time shares in percent, without those of 0."""
    evidence = trial_evidence(trial)
    return {
        name.removeprefix("time_").removesuffix("_percent"): value
        for name, value in evidence.items()
        if name.startswith("time_") and value > 0
    }


def test_a_sender_that_never_sleeps_before_a_receiver_that_starves_takes_the_time() -> None:
    got = shares(trial_with_threads((1.0, 0.0), (0.5, 0.0), busy_cpu(1.0), busy_cpu(0.5)))
    assert got == pytest.approx({"sender_running": 100})


def test_a_receiver_that_never_sleeps_behind_a_sender_that_blocks_takes_the_time() -> None:
    got = shares(trial_with_threads((0.5, 0.0), (1.0, 0.0), busy_cpu(1.0), busy_cpu(0.5)))
    assert got == pytest.approx({"receiver_running": 100})


def test_threads_that_share_full_cpus_wait_for_the_load_itself() -> None:
    trial = trial_with_threads((0.125, 0.875), (0.125, 0.125), busy_cpu(1.0), busy_cpu(1.0), threads=8)
    got = shares(trial)
    assert got["sender_running"] == pytest.approx(12.5)
    assert got["sender_load"] == pytest.approx(87.5)
    evidence = trial_evidence(trial)
    assert evidence["load_cpus"] == 2
    assert evidence["load_cpus_occupied_percent"] == pytest.approx(100)
    assert evidence["threads_per_load_cpu"] == 8


def test_threads_that_share_their_cpu_with_a_program_wait_for_it() -> None:
    hog = [{"name": "hog", "pid": 7, "cpu_s": 0.5, "cpus": "0"}]
    trial = trial_with_threads((0.5, 0.5), (0.0, 0.0), busy_cpu(1.0))
    got = shares(with_totals(trial, HOST, processes=hog))
    assert got == pytest.approx({"sender_running": 50, "sender_programs": 50})


def test_the_time_of_programs_covers_the_interval_between_the_readings() -> None:
    hog = [{"name": "hog", "pid": 7, "cpu_s": 1.0, "cpus": "0", "threads": 1}]
    cpu = {"system_s": 0.75 * SAMPLE_S, "softirq_s": 0.25 * SAMPLE_S, "idle_s": 0.0}
    trial = with_totals(trial_with_threads((0.5, 0.5), (0.0, 0.0), cpu), HOST, processes=hog)
    cpu_of_hog = [
        trial_evidence(with_totals(trial, HOST, processes_interval_s=interval_s))[
            "load_cpus_programs_percent"
        ]
        for interval_s in (2.0, 4.0)
    ]
    assert cpu_of_hog == pytest.approx([50, 25])


def test_programs_that_ended_within_the_trial_are_programs_too() -> None:
    """Recorded with shell loops of short commands on two CPUs: the list holds only the shells."""
    shells = [{"name": "sh", "pid": 7, "cpu_s": 0.072, "cpus": "0-1", "threads": 1}]
    cpu = {"user_s": 0.2 * SAMPLE_S, "system_s": 0.68 * SAMPLE_S, "softirq_s": 0.12 * SAMPLE_S, "idle_s": 0.0}
    trial = trial_with_threads((0.11, 0.75), (0.04, 0.3), cpu, cpu, threads=4)
    trial = with_totals(trial, HOST, processes=shells, processes_interval_s=1.0)
    evidence = trial_evidence(trial)
    assert evidence["load_cpus_load_percent"] == pytest.approx(30)
    assert evidence["load_cpus_programs_percent"] == pytest.approx(58)
    # Interrupts explain the rest. Without them in excess, there are no unlisted programs.
    assert evidence["load_cpus_packets_percent"] == pytest.approx(12)
    flooded = {"system_s": 0.3 * SAMPLE_S, "softirq_s": 0.7 * SAMPLE_S, "idle_s": 0.0}
    trial = trial_with_threads((0.11, 0.75), (0.04, 0.3), flooded, flooded, threads=4)
    evidence = trial_evidence(with_totals(trial, HOST, processes=shells, processes_interval_s=1.0))
    assert evidence["load_cpus_programs_percent"] == pytest.approx(3.6)


def test_a_program_that_may_not_use_a_cpu_takes_none_of_it() -> None:
    """The load may use both CPUs and keeps to the first one, where only it runs."""
    hog = [{"name": "hog", "pid": 7, "cpu_s": 1.0, "cpus": "1", "threads": 1}]
    trial = trial_with_threads((0.8, 0.0), (0.0, 0.0), busy_cpu(0.8), busy_cpu(1.0))
    trial = with_counters(trial, "a1", process_cpu_user_s=0.0, process_cpu_system_s=0.8 * SAMPLE_S)
    data = trial_data(with_totals(trial, HOST, processes=hog, processes_interval_s=1.0))
    assert largest_programs_share(data.steady_part, data.kernels[0], (0,)) == 0
    assert largest_programs_share(data.steady_part, data.kernels[0], (1,)) > 0.5


def test_threads_that_share_their_cpu_with_a_kernel_thread_wait_for_packet_processing() -> None:
    worker = [{"name": "vhost-7", "pid": 7, "cpu_s": 0.5, "cpus": "0", "threads": 1, "kernel": True}]
    trial = trial_with_threads((0.5, 0.5), (0.0, 0.0), busy_cpu(1.0))
    got = shares(with_totals(trial, HOST, processes=worker))
    assert got == pytest.approx({"sender_running": 50, "sender_packets": 50})


def test_waiting_that_no_work_on_the_cpus_explains_is_a_quota() -> None:
    got = shares(trial_with_threads((0.4, 0.6), (0.0, 0.0), busy_cpu(0.4)))
    assert got == pytest.approx({"sender_running": 40, "sender_quota": 60})


def test_throttled_time_is_a_quota_although_other_programs_run() -> None:
    trial = trial_with_threads((0.5, 0.5), (0.0, 0.0), busy_cpu(1.0))
    got = shares(with_counters(trial, "a1", cgroup_throttled_s=0.5 * SAMPLE_S))
    assert got == pytest.approx({"sender_running": 50, "sender_quota": 50})


def test_stolen_time_is_not_running() -> None:
    cpu = {"system_s": 0.6 * SAMPLE_S, "steal_s": 0.4 * SAMPLE_S, "idle_s": 0.0}
    got = shares(trial_with_threads((1.0, 0.0), (0.0, 0.0), cpu))
    assert got["sender_hypervisor"] > 30
    assert got["sender_running"] + got["sender_hypervisor"] == pytest.approx(100)


def test_time_in_which_neither_endpoint_has_work_belongs_to_the_network() -> None:
    trial = trial_with_threads((0.0, 0.0), (0.0, 0.0), busy_cpu(0.0))
    windows = {"busy_s": SAMPLE_S, "rwnd_limited_s": SAMPLE_S, "sndbuf_limited_s": 0.0}
    assert shares(with_stream_details(trial, "a1", **windows)) == pytest.approx({"receive_window": 100})


def test_waiting_beyond_the_other_work_is_a_quota_on_many_cpus_too() -> None:
    trial = trial_with_threads((0.4, 0.6), (0.0, 0.0), *[busy_cpu(0.05)] * 16)
    assert shares(trial)["sender_quota"] > 45


def test_a_connection_per_request_is_at_one_place_at_a_time() -> None:
    trial = trial_with_threads((0.5, 0.0), (0.5, 0.0), busy_cpu(0.5), busy_cpu(0.5))
    samples = [{"connect_time": ((20_000, 50),), "latency": ((20_000, 50),)}] * 20
    got = shares(with_histograms(trial, "a1", samples))
    assert got == pytest.approx({"sender_running": 50, "receiver_running": 50})


def test_a_load_that_sends_at_its_rate_pauses() -> None:
    trial = trial_with_threads((0.1, 0.0), (0.1, 0.0), busy_cpu(0.1), busy_cpu(0.1))
    pacing = {"pacing": {"due": 1000, "sent": 1000}}
    assert shares(with_totals(trial, "a1", instrument=pacing))["load_pause"] > 70
    assert "load_pause" not in shares(trial)


def test_a_wait_delays_messages_however_long_the_load_pauses_between_them() -> None:
    """Recorded with datagrams at a rate, and busy programs with more CPU weight than the load."""
    hog = [{"name": "hog", "pid": 7, "cpu_s": 1.7, "cpus": "0-1", "threads": 2}]
    trial = trial_with_threads((0.06, 0.03), (0.02, 0.08), busy_cpu(1.0), busy_cpu(1.0))
    trial = with_totals(trial, HOST, processes=hog, processes_interval_s=1.0)
    paced = with_totals(trial, "a1", instrument=PACED)
    evidence = trial_evidence(paced)
    active_percent = 100 - evidence["time_load_pause_percent"]
    programs_percent = evidence["time_sender_programs_percent"] + evidence["time_receiver_programs_percent"]
    assert active_percent < 25
    assert evidence["programs_time_percent"] == pytest.approx(100 * programs_percent / active_percent)
    # Without a rate, all of the time is that of the stream.
    assert trial_evidence(trial)["programs_time_percent"] == pytest.approx(programs_percent)


PACED = {"pacing": {"due": 20_000, "sent": 20_000}}


def with_late_samples(
    trial: TrialRecord, endpoint: str, is_realtime: bool, late_s: float = 0.03
) -> TrialRecord:
    """Return the trial with every second sample of an endpoint late, and the next one shorter by as much."""

    def delay(record: EndpointRecord) -> EndpointRecord:
        lengths = [SAMPLE_S + late_s, SAMPLE_S - late_s] * (len(record.samples) // 2)
        samples = (replace(x, interval_s=length) for x, length in zip(record.samples, lengths, strict=True))
        return replace(record, samples=tuple(samples))

    instrument = {"sampler_realtime": is_realtime}
    return with_totals(change_endpoint(trial, endpoint, delay), endpoint, instrument=instrument)


def test_a_late_sample_of_a_load_that_mostly_pauses_is_no_stop_of_its_messages() -> None:
    """A process can stop at any time, so its stops relate to all of it."""
    trial = with_late_samples(trial_with_threads((0.1, 0.0), (0.1, 0.0), busy_cpu(0.2)), "a1", True)
    paced = with_totals(trial, "a1", instrument={"sampler_realtime": True, **PACED})
    evidence = trial_evidence(paced)
    assert evidence["time_sender_stopped_percent"] > 0
    assert evidence["stopped_time_percent"] == pytest.approx(
        evidence["time_sender_stopped_percent"] + evidence.get("time_receiver_stopped_percent", 0)
    )


def test_waits_of_a_load_with_next_to_no_messages_are_unknown() -> None:
    trial = trial_with_threads((0.01, 0.01), (0.01, 0.0), busy_cpu(1.0))
    evidence = trial_evidence(with_totals(trial, "a1", instrument=PACED))
    assert evidence["time_load_pause_percent"] > 90
    assert "programs_time_percent" not in evidence
    assert "quota_time_percent" not in evidence


@pytest.mark.parametrize("is_realtime", [True, False])
def test_an_agent_whose_samples_are_late_while_its_cpus_are_idle_was_stopped(is_realtime: bool) -> None:
    trial = trial_with_threads((0.4, 0.0), (0.0, 0.0), busy_cpu(0.4))
    got = shares(with_late_samples(trial, "a1", is_realtime))
    # 30 ms of each 100 ms.
    assert got["sender_stopped"] == pytest.approx(30, abs=1)
    assert "sender_stopped" not in shares(trial)


@pytest.mark.parametrize("is_realtime", [True, False])
def test_small_delays_of_every_sample_are_no_stop(is_realtime: bool) -> None:
    trial = trial_with_threads((0.4, 0.0), (0.0, 0.0), busy_cpu(0.4))
    assert "sender_stopped" not in shares(with_late_samples(trial, "a1", is_realtime, late_s=0.003))


def test_a_full_cpu_delays_only_samples_without_real_time_priority() -> None:
    trial = trial_with_threads((0.5, 0.5), (0.0, 0.0), busy_cpu(1.0))
    assert "sender_stopped" not in shares(with_late_samples(trial, "a1", is_realtime=False))


def test_a_process_is_not_stopped_while_one_of_its_threads_is_runnable() -> None:
    def stopped_percent(busiest_thread_share: float) -> float:
        counters = {"busiest_thread_cpu_s": busiest_thread_share * SAMPLE_S}
        late = with_late_samples(with_counters(trial, "a1", **counters), "a1", is_realtime=True)
        return shares(late).get("sender_stopped", 0.0)

    trial = trial_with_threads((0.1, 0.0), (0.0, 0.0), busy_cpu(0.8), threads=8)
    assert stopped_percent(0.1) == pytest.approx(30, abs=1)
    assert 0 < stopped_percent(0.9) <= 10
    assert stopped_percent(1.0) == 0


def test_what_delays_the_observer_too_does_not_stop_the_process() -> None:
    trial = trial_with_threads((0.4, 0.0), (0.0, 0.0), busy_cpu(0.4))
    for name in ("a1", HOST):
        trial = with_late_samples(trial, name, is_realtime=True)
    assert "sender_stopped" not in shares(trial)


def test_a_stopped_receiver_takes_the_time_for_which_it_makes_the_sender_wait() -> None:
    trial = trial_with_threads((0.1, 0.0), (0.3, 0.0), busy_cpu(0.2), busy_cpu(0.2))
    got = shares(with_late_samples(trial, "b1", is_realtime=True))
    assert got["receiver_stopped"] > 25
    assert sum(got.values()) == pytest.approx(100)


@given(
    times=st.lists(st.floats(0, 1), min_size=4, max_size=4),
    cpu=st.floats(0, 1),
    threads=st.integers(1, 64),
    rwnd=st.floats(0, 1),
    program_s=st.floats(0, 2),
)
def test_the_shares_are_never_negative_and_add_up_to_100_percent(
    times: list[float], cpu: float, threads: int, rwnd: float, program_s: float
) -> None:
    sender, receiver = (times[0], times[1]), (times[2], times[3])
    trial = trial_with_threads(sender, receiver, busy_cpu(cpu), busy_cpu(cpu), threads=threads)
    trial = with_stream_details(
        trial, "a1", busy_s=SAMPLE_S, rwnd_limited_s=rwnd * SAMPLE_S, sndbuf_limited_s=0.0
    )
    trial = with_totals(trial, HOST, processes=[{"name": "p", "pid": 1, "cpu_s": program_s, "cpus": "0-1"}])
    got = shares(trial)
    assert sum(got.values()) == pytest.approx(100)
    evidence = trial_evidence(trial)
    assert all(
        0 <= value <= 100.001 for name, value in evidence.items() if name.startswith(("time_", "load_cpus_"))
    )
