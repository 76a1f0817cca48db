"""Tables of the endpoints of trials: their totals and their samples."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence

from vnetbench.results.records import EndpointRecord, JsonObject, Sample, mapping_or_empty
from vnetbench.results.sample_columns import (
    MAX_JSON_BYTES,
    MalformedColumns,
    columns_to_samples,
    compress_json_with_length,
    decompress_json,
    samples_to_columns,
)

_TOTALS = "totals"
_MAX_SMALL_TRIAL_JSON_BYTES = 1 << 24
_MAX_JSON_BYTES_PER_STORED_BYTE = 100
"""A trial's JSON may be this long, or this many times as long as its compressed data. Samples of agents
compress to a fifth. Equal rows would compress to a thousandth, so a small file could take all memory."""


def insert_endpoint(db: sqlite3.Connection, trial_id: int, endpoint: EndpointRecord) -> None:
    """Insert an endpoint's record of a trial with all its samples."""
    key = (trial_id, endpoint.name)
    db.execute(
        "INSERT INTO endpoint VALUES (?, ?, ?, ?, ?)",
        (*key, endpoint.role, endpoint.bytes_sent, endpoint.bytes_received),
    )
    db.executemany(
        "INSERT INTO endpoint_data (trial_id, endpoint, part, json_bytes, data) VALUES (?, ?, ?, ?, ?)",
        [
            (*key, number, *part)
            for number, part in enumerate(
                _uncompressed_lengths_and_compressed_parts(endpoint.samples, {_TOTALS: endpoint.totals})
            )
        ],
    )


def read_endpoints(db: sqlite3.Connection, trial_id: int, with_counters: bool) -> Iterator[EndpointRecord]:
    """Yield the endpoints of a trial by name; without counters and CPUs if `with_counters` is False.

    Raises:
        sqlite3.DatabaseError: The stored data are malformed.
    """
    totals: dict[str, JsonObject] = {}
    samples: dict[str, list[Sample]] = {}
    parts = db.execute(
        "SELECT endpoint, json_bytes, data FROM endpoint_data WHERE trial_id = ? ORDER BY endpoint, part",
        (trial_id,),
    ).fetchall()
    _check_json_length(trial_id, [(length, data) for _, length, data in parts])
    for endpoint, length, data in parts:
        try:
            part = decompress_json(length, data)
            samples.setdefault(endpoint, []).extend(columns_to_samples(part, with_counters=with_counters))
            totals.setdefault(endpoint, mapping_or_empty(part.get(_TOTALS)))
        except MalformedColumns as error:
            raise sqlite3.DatabaseError(
                f"malformed data of endpoint {endpoint} in trial {trial_id}: {error}"
            ) from error
    for name, role in db.execute(
        "SELECT name, role FROM endpoint WHERE trial_id = ? ORDER BY name", (trial_id,)
    ).fetchall():
        yield EndpointRecord(name, role, totals.get(name, {}), tuple(samples.get(name, ())))


def _check_json_length(trial_id: int, parts: Sequence[tuple[int, bytes]]) -> None:
    """Raise sqlite3.DatabaseError if the JSON of a trial is far longer than its compressed data allow."""
    json_bytes = sum(max(0, length) for length, _ in parts)
    most = max(_MAX_SMALL_TRIAL_JSON_BYTES, _MAX_JSON_BYTES_PER_STORED_BYTE * sum(len(x) for _, x in parts))
    if json_bytes > most:
        raise sqlite3.DatabaseError(
            f"malformed data of trial {trial_id}: {json_bytes} bytes of JSON, but at most {most} are allowed"
        )


def _uncompressed_lengths_and_compressed_parts(
    samples: Sequence[Sample], totals: JsonObject
) -> Iterator[tuple[int, bytes]]:
    """Yield the totals and the columns of the samples, in as many parts as their maximum length requires."""
    length, data = compress_json_with_length({**totals, **samples_to_columns(samples)})
    if length <= MAX_JSON_BYTES or len(samples) < 2:
        yield length, data
    else:
        yield from _uncompressed_lengths_and_compressed_parts(samples[: len(samples) // 2], totals)
        yield from _uncompressed_lengths_and_compressed_parts(samples[len(samples) // 2 :], {})


def to_json(value: object) -> str:
    """Return a value as compact JSON."""
    return json.dumps(value, separators=(",", ":"))
