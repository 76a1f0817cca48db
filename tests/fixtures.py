"""Builds studies and synthetic trials for tests that need a results file but no network."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vnetbench.estimate.summarize import summarize
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.results.file import ResultsFile
from vnetbench.results.records import EndpointRecord, Histogram, Sample, StreamSample, TrialRecord
from vnetbench.study.file.load import parse_study
from vnetbench.study.model import Plan, Study
from vnetbench.study.plan import make_plan

STUDY_TEXT = """\
title = "Synthetic"
question = "Does it work?"
workload = "tcp_stream"

[factors]
streams = [1, 4]
mtu = [1500, 9000]

[precision]
max_trials = 20
"""


def make_study(text: str = STUDY_TEXT, path: str | None = None) -> Study:
    return parse_study(text, path)


def create_results_file(path: Path, study: Study | None = None) -> tuple[ResultsFile, Plan]:
    """Create a results file of a study."""
    study = study or make_study()
    plan = make_plan(study, 1)
    return ResultsFile.create(path, study, plan), plan


def read_summary(path: Path) -> CampaignSummary:
    """Return the summary of a results file, and close the file."""
    with closing(ResultsFile.open_to_read(path)) as file:
        return summarize(file)


def make_trial(
    treatment: int = 0, block: int = 0, *, rates: list[float] | None = None, failure: str = "", seed: int = 0
) -> TrialRecord:
    """Return a trial of one pair; `rates` are the goodput of each 50 ms in bit/s."""
    noise = np.random.default_rng([seed, treatment, block])
    rates = rates or list(1e10 * (1 + 0.02 * noise.standard_normal(20)))
    if failure:
        return TrialRecord(treatment, block, "bridge pairs=1", 1.0, 1.0, 0.0, {}, (), failure=failure)
    samples = [int(rate * 0.05 / 8) for rate in rates]
    return TrialRecord(
        treatment=treatment,
        block=block,
        testbed_shape="bridge pairs=1",
        since_campaign_start_s=1.0,
        duration_s=0.05 * len(rates),
        setup_s=0.1,
        effective={"mtu": 1500},
        endpoints=(
            endpoint_record("a1", "source", samples),
            endpoint_record("b1", "sink", samples),
            endpoint_record("host", "observe", samples),
        ),
    )


def endpoint_record(endpoint: str, role: str, sizes: list[int]) -> EndpointRecord:
    sent = sizes if role == "source" else [0] * len(sizes)
    received = sizes if role == "sink" else [0] * len(sizes)
    samples = tuple(
        Sample(
            seq=i,
            end_s=0.05 * (i + 1),
            interval_s=0.05,
            bytes_sent=sent[i],
            bytes_received=received[i],
            counters=_counters(sizes[i], observing=role == "observe"),
            cpu=({"cpu": 0, "user_s": 0.01, "system_s": 0.02, "softirq_s": 0.01, "idle_s": 0.01},)
            if role == "observe"
            else (),
            streams=()
            if role == "observe"
            else (StreamSample(0, role, sizes[i], 40.0, 10, 1, {"segments_out": sizes[i] // 1448}),),
        )
        for i in range(len(sizes))
    )
    totals = {"bytes_sent": sum(sent), "bytes_received": sum(received), "drained": True}
    return EndpointRecord(endpoint, role, totals, samples)


def _counters(size: int, *, observing: bool) -> dict[str, float]:
    if observing:
        return {"cycles": 0.5 * size, "interrupts": 100.0, "softirq_net_rx": 50.0}
    return {
        "process_cpu_user_s": 0.005,
        "process_cpu_system_s": 0.02,
        "voluntary_switches": 10,
        "involuntary_switches": 1,
        "rx_packets": size / 9000,
        "tx_packets": size / 9000,
        "rx_bytes": size,
        "tx_bytes": size,
    }


def make_mixed_trial(
    treatment: int = 0,
    block: int = 0,
    *,
    idle_us: float = 100.0,
    increase_us: float = 4000.0,
    filling: int = 0,
    requests: int = 50,
    seed: int = 0,
) -> TrialRecord:
    """Return a trial of `mixed`: 0.5 s of requests alone, then 1 s with a transfer of 1 Gbit/s.

    Args:
        treatment: Index of the treatment.
        block: Index of the block.
        idle_us: Median latency without load.
        increase_us: Increase of the median under load.
        filling: Number of intervals in which the median rises to its value under load, in equal steps.
        requests: Number of requests that end in each 50 ms.
        seed: Seed of the latencies, which are normally distributed about their medians.
    """
    noise = np.random.default_rng([seed, treatment, block])
    ramp = [min(1.0, (at + 1) / (filling + 1)) for at in range(20)]
    medians = [idle_us] * 10 + [idle_us + share * increase_us for share in ramp]
    bytes_moved = [0] * 10 + [int(1e9 * 0.05 / 8)] * 20
    source, sink = endpoint_record("a1", "source", bytes_moved), endpoint_record("b1", "sink", bytes_moved)
    timed = tuple(
        replace(sample, histograms={"latency": _histogram(noise.normal(median, 0.05 * median, requests))})
        for sample, median in zip(source.samples, medians, strict=True)
    )
    return TrialRecord(
        treatment=treatment,
        block=block,
        testbed_shape="bridge pairs=1 uplink",
        since_campaign_start_s=1.0,
        duration_s=1.0,
        setup_s=0.6,
        effective={"mtu": 1500},
        endpoints=(_with_request_stream(replace(source, samples=timed)), _with_request_stream(sink)),
        idle_s=0.5,
    )


def _with_request_stream(record: EndpointRecord) -> EndpointRecord:
    """Return the record with its stream as a transfer and an added stream of one-byte requests."""
    requests = StreamSample(
        0, "source" if record.name == "a1" else "sink", 50, 90.0, 10, 0, load_part="requests"
    )
    samples = tuple(
        replace(
            sample,
            bytes_sent=sample.bytes_sent + 50,
            bytes_received=sample.bytes_received + 50,
            streams=(
                requests,
                *(replace(stream, stream_id=1, load_part="transfers") for stream in sample.streams),
            ),
        )
        for sample in record.samples
    )
    return replace(record, samples=samples)


def _histogram(latencies_us: NDArray[np.float64]) -> Histogram:
    values, counts = np.unique(np.maximum(1000, 1000 * np.rint(latencies_us)).astype(int), return_counts=True)
    return tuple(zip(values.tolist(), counts.tolist(), strict=True))


def frame_endpoint_records(
    duration_s: float, interval_s: float, sent: int, received: int, delay_ns: int = 20_000
) -> tuple[EndpointRecord, ...]:
    """Return the records of one pair whose frames went forward evenly, and of the host."""
    count = max(1, round(duration_s / interval_s))
    sent_counts, received_counts = (_split_evenly(total, count) for total in (sent, received))
    sink_stream = {"id": 0, "role": "sink", "frames_received": received, "duplicates": 0, "out_of_order": 0}
    sink = _frame_record("b1", "sink", "frames_received", received_counts, interval_s, sink_stream)
    delays = [{"delay": ((delay_ns, number),)} if number else {} for number in received_counts]
    timed = [replace(x, histograms=delay) for x, delay in zip(sink.samples, delays, strict=True)]
    source_stream = {"id": 0, "role": "source", "frames_sent": sent}
    return (
        _frame_record("a1", "source", "frames_sent", sent_counts, interval_s, source_stream),
        replace(sink, samples=tuple(timed)),
        _frame_record("host", "observe", "", [0] * count, interval_s, {}),
    )


def _split_evenly(total: int, parts: int) -> list[int]:
    return [total * (at + 1) // parts - total * at // parts for at in range(parts)]


def _frame_record(
    endpoint: str, role: str, counter: str, counts: list[int], interval_s: float, stream: dict[str, object]
) -> EndpointRecord:
    samples = tuple(
        Sample(
            seq=at,
            end_s=interval_s * (at + 1),
            interval_s=interval_s,
            bytes_sent=64 * count if counter == "frames_sent" else 0,
            bytes_received=64 * count if counter == "frames_received" else 0,
            counters={"cycles": 1000.0 * count},
            streams=(StreamSample(0, role, 64 * count, None, None, None, {counter: count}),)
            if counter
            else (),
        )
        for at, count in enumerate(counts)
    )
    totals: dict[str, object] = {"drained": True}
    if stream:
        totals["streams"] = [stream]
    return EndpointRecord(endpoint, role, totals, samples)
