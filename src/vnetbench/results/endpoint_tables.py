"""Tables of the endpoints of trials: their totals, samples, streams and histograms."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from vnetbench.results.agent_events import parse_histogram
from vnetbench.results.records import EndpointRecord, Histogram, Observation, Sample, StreamSample

OBSERVATION_KEY = "observation"
"""Key in a sample's stored counters: the observer's `Observation`."""


def insert_endpoint(db: sqlite3.Connection, trial_id: int, endpoint: EndpointRecord) -> None:
    """Insert an endpoint's record of a trial with all its samples."""
    key = (trial_id, endpoint.name)
    db.execute(
        "INSERT INTO endpoint VALUES (?, ?, ?, ?, ?, ?)",
        (*key, endpoint.role, endpoint.bytes_sent, endpoint.bytes_received, to_json(endpoint.totals)),
    )
    db.executemany(
        "INSERT INTO sample VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                *key, s.seq, s.end_s, s.interval_s, s.bytes_sent, s.bytes_received,
                to_json(_counters_to_store(s)),
                to_json(s.cpu) if s.cpu else None,
            )
            for s in endpoint.samples
        ],
    )  # fmt: skip
    db.executemany(
        "INSERT INTO stream_sample VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                *key, x.stream_id, s.seq, x.role, x.load_part, x.bytes, x.rtt_us, x.cwnd, x.retransmits,
                to_json(x.details),
            )
            for s in endpoint.samples
            for x in s.streams
        ],
    )  # fmt: skip
    db.executemany(
        "INSERT INTO histogram VALUES (?, ?, ?, ?, ?)",
        [
            (*key, s.seq, kind, to_json(buckets))
            for s in endpoint.samples
            for kind, buckets in s.histograms.items()
        ],
    )


def read_endpoints(db: sqlite3.Connection, trial_id: int, with_counters: bool) -> Iterator[EndpointRecord]:
    """Yield the endpoints of a trial by name; without counters and CPUs if `with_counters` is False."""
    samples = _read_samples(db, trial_id, with_counters)
    for name, role, totals in db.execute(
        "SELECT name, role, totals FROM endpoint WHERE trial_id = ? ORDER BY name", (trial_id,)
    ).fetchall():
        yield EndpointRecord(name, role, json.loads(totals), tuple(samples.get(name, ())))


def _read_samples(db: sqlite3.Connection, trial_id: int, with_counters: bool) -> dict[str, list[Sample]]:
    """Return the samples of a trial by endpoint."""
    streams = _read_streams(db, trial_id)
    histograms = _read_histograms(db, trial_id)
    samples: dict[str, list[Sample]] = {}
    columns = "counters, cpu" if with_counters else "'{}', NULL"
    rows = db.execute(
        f"SELECT {columns}, endpoint, seq, t_s, interval_s, bytes_sent, bytes_received FROM sample"
        " WHERE trial_id = ? ORDER BY endpoint, seq",
        (trial_id,),
    ).fetchall()
    cpus = iter(_parse_first_column([(cpu,) for _, cpu, *_ in rows if cpu]))
    for counters, (_, cpu, endpoint, seq, t_s, interval_s, sent, received) in zip(
        _parse_first_column(rows), rows, strict=True
    ):
        observation = counters.pop(OBSERVATION_KEY, None)
        samples.setdefault(endpoint, []).append(
            Sample(
                seq, t_s, interval_s, sent, received, counters, tuple(next(cpus)) if cpu else (),
                tuple(streams.get((endpoint, seq), ())), histograms.get((endpoint, seq), {}),
                Observation(**observation) if observation else None,
            )
        )  # fmt: skip
    return samples


def _read_streams(db: sqlite3.Connection, trial_id: int) -> dict[tuple[str, int], list[StreamSample]]:
    """Return the stream samples of a trial by endpoint and number of the sample."""
    streams: dict[tuple[str, int], list[StreamSample]] = {}
    rows = db.execute(
        "SELECT details, endpoint, seq, stream_id, role, bytes, rtt_us, cwnd, retransmits, load_part"
        " FROM stream_sample WHERE trial_id = ? ORDER BY endpoint, seq, stream_id",
        (trial_id,),
    ).fetchall()
    for details, (_, endpoint, seq, stream, role, size, rtt, cwnd, retransmits, part) in zip(
        _parse_first_column(rows), rows, strict=True
    ):
        sample = StreamSample(stream, role, size, rtt, cwnd, retransmits, details, part)
        streams.setdefault((endpoint, seq), []).append(sample)
    return streams


def _read_histograms(db: sqlite3.Connection, trial_id: int) -> dict[tuple[str, int], dict[str, Histogram]]:
    """Return the histograms of a trial by endpoint and number of the sample, then by kind."""
    histograms: dict[tuple[str, int], dict[str, Histogram]] = {}
    rows = db.execute(
        "SELECT buckets, endpoint, seq, kind FROM histogram WHERE trial_id = ?", (trial_id,)
    ).fetchall()
    for buckets, (_, endpoint, seq, kind) in zip(_parse_first_column(rows), rows, strict=True):
        histograms.setdefault((endpoint, seq), {})[kind] = parse_histogram(buckets)
    return histograms


def _counters_to_store(sample: Sample) -> dict[str, object]:
    observation = {OBSERVATION_KEY: asdict(sample.observation)} if sample.observation else {}
    return {**sample.counters, **observation}


def _parse_first_column(rows: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Parse the JSON in the first column of all rows as one text, so that the parser shares the keys."""
    parsed: list[Any] = json.loads(f"[{','.join(row[0] for row in rows)}]")
    return parsed


def to_json(value: object) -> str:
    """Return a value as compact JSON."""
    return json.dumps(value, separators=(",", ":"))
