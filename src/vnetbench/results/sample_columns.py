"""Samples of an endpoint as columns in JSON, compressed with zlib (docs/results-file.md, "Samples").

Equal keys stand once, and the values of one counter follow each other, so that they compress well.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from operator import itemgetter
from typing import Any

from vnetbench.results.records import Histogram, Observation, Sample, StreamSample

Columns = dict[str, Any]
"""Name to one value per row, or to the columns of an object that each row has."""

MAX_JSON_BYTES = 1 << 26
"""Maximum length of a stored JSON text. It bounds the memory that a crafted file can take."""
_COMPRESSION_LEVEL = 9
_SAMPLES, _CPUS, _STREAMS, _HISTOGRAMS = "samples", "cpus", "streams", "histograms"
_SAMPLE_NUMBERS = ("seq", "t_s", "interval_s", "bytes_sent", "bytes_received")
_STREAM_NUMBERS = ("seq", "stream_id", "bytes", "rtt_us", "cwnd", "retransmits")
_OPTIONAL_NUMBERS = ("rtt_us", "cwnd", "retransmits")


class MalformedColumns(ValueError):
    """Stored columns contradict the format."""


def compress_json_with_length(value: object) -> tuple[int, bytes]:
    """Return the length of the value's JSON text in bytes, and the compressed text.

    The two lengths differ: SQLite's `sqlar_uncompress` takes data of the given length as not compressed.
    """
    text = json.dumps(value, separators=(",", ":")).encode()
    while len(compressed := zlib.compress(text, _COMPRESSION_LEVEL)) == len(text):
        text += b" "
    return len(text), compressed


def decompress_json(length: object, compressed: object) -> Any:
    """Return the value of a compressed JSON text, from the columns of a file that may be malformed.

    Raises:
        MalformedColumns: The text does not have this length, is too long, or is no JSON.
    """
    if not isinstance(length, int) or not isinstance(compressed, bytes):
        raise MalformedColumns("a compressed JSON text is not a blob, or its length is not an integer")
    if not 0 <= length <= MAX_JSON_BYTES:
        raise MalformedColumns(f"a JSON text has {length} bytes, but at most {MAX_JSON_BYTES} are allowed")
    decompressor = zlib.decompressobj()
    try:
        text = decompressor.decompress(compressed, length + 1)
        if len(text) != length or not decompressor.eof:
            raise MalformedColumns(f"a compressed JSON text does not have {length} bytes")
        return json.loads(text)
    except (zlib.error, ValueError, RecursionError) as error:
        raise MalformedColumns(str(error)) from error


def samples_to_columns(samples: Sequence[Sample]) -> dict[str, Columns]:
    """Return the columns of samples: `samples`, `cpus`, `streams` and `histograms`; empty ones are absent."""
    streams = sorted(((x.seq, y) for x in samples for y in x.streams), key=lambda row: row[1].stream_id)
    tables = {
        _SAMPLES: _rows_to_columns([_sample_row(x) for x in samples]),
        _CPUS: _rows_to_columns([{"seq": x.seq, **cpu} for x in samples for cpu in x.cpu]),
        _STREAMS: _rows_to_columns([_stream_row(seq, stream) for seq, stream in streams]),
        _HISTOGRAMS: _rows_to_columns(
            [
                {
                    "seq": x.seq, "kind": kind,
                    "values_ns": [value for value, _ in buckets], "counts": [count for _, count in buckets],
                }
                for x in samples
                for kind, buckets in x.histograms.items()
            ]
        ),
    }  # fmt: skip
    return {name: columns for name, columns in tables.items() if columns}


def columns_to_samples(tables: object, *, with_counters: bool) -> list[Sample]:
    """Return samples from their columns; without counters, CPUs and observations if not `with_counters`.

    Raises:
        MalformedColumns: The columns contradict the format.
    """
    try:
        return _build_samples(_expect_object(tables), with_counters)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise MalformedColumns(f"samples cannot be read: {error!r}") from error


def _sample_row(sample: Sample) -> dict[str, Any]:
    row = {
        "seq": sample.seq, "t_s": float(sample.end_s), "interval_s": float(sample.interval_s),
        "bytes_sent": sample.bytes_sent, "bytes_received": sample.bytes_received,
        "counters": dict(sample.counters),
    }  # fmt: skip
    return row if sample.observation is None else {**row, "observation": asdict(sample.observation)}


def _stream_row(seq: int, stream: StreamSample) -> dict[str, Any]:
    return {
        "seq": seq, "stream_id": stream.stream_id, "role": stream.role, "load_part": stream.load_part,
        "bytes": stream.bytes, "rtt_us": None if stream.rtt_us is None else float(stream.rtt_us),
        "cwnd": stream.cwnd, "retransmits": stream.retransmits, "details": dict(stream.details),
    }  # fmt: skip


def _rows_to_columns(rows: Sequence[Mapping[str, Any]]) -> Columns:
    """Return the columns of rows. A row without a key has None there."""
    columns: Columns = {}
    for key, values in _values_by_key(rows):
        # A trial has some 10,000 values of a few types, so this asks about the types.
        are_objects = all(issubclass(each, Mapping) for each in set(map(type, values)))
        columns[key] = _rows_to_columns(values) if are_objects else values
    return columns


def _values_by_key(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, list[Any]]]:
    """Yield each key of the rows with its value in each row."""
    first = rows[0] if rows else {}
    if len(first) > 1 and all(row.keys() == first.keys() for row in rows):  # almost always: read all at once
        yield from zip(first, map(list, zip(*map(itemgetter(*first), rows), strict=True)), strict=True)
        return
    for key in dict.fromkeys(chain.from_iterable(rows)):
        yield key, [row.get(key) for row in rows]


def _columns_to_rows(columns: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
    """Return `count` rows from their columns; a row has no key where its column is null."""
    lists = {key: values for key, values in columns.items() if isinstance(values, list)}
    complete = {key: values for key, values in lists.items() if None not in values}
    rows = [dict(zip(complete, row, strict=True)) for row in zip(*complete.values(), strict=True)]
    if not complete:
        rows = [{} for _ in range(count)]
    if len(rows) != count or any(len(values) != count for values in lists.values()):
        raise MalformedColumns("columns differ in length")
    for key, values in columns.items():
        if isinstance(values, dict):
            for row, value in zip(rows, _columns_to_rows(values, count), strict=True):
                row[key] = value
        elif key not in lists:
            raise MalformedColumns(f"column {key} is not a list")
        elif key not in complete:
            for row, value in zip(rows, values, strict=True):
                if value is not None:
                    row[key] = value
    return rows


def _build_samples(tables: Mapping[str, Any], with_counters: bool) -> list[Sample]:
    columns = _expect_object(tables.get(_SAMPLES, {}))
    if not columns:
        return []
    seq, ends_s, intervals_s, sent, received = _number_columns(columns, _SAMPLE_NUMBERS)
    count = len(seq)
    counters: list[dict[str, Any]] = [{} for _ in seq]
    observations: list[Observation | None] = [None] * count
    cpus: dict[int, list[dict[str, Any]]] = {}
    if with_counters:
        counters = _columns_to_rows(_expect_object(columns["counters"]), count)
        observations = [_build_observation(each) for each in _object_rows(columns.get("observation"), count)]
        for each in _table_rows(tables.get(_CPUS, {})):
            cpus.setdefault(each.pop("seq"), []).append(each)
    streams = _build_streams(_expect_object(tables.get(_STREAMS, {})))
    histograms = _build_histograms_by_sample_and_kind(tables.get(_HISTOGRAMS, {}))
    return [
        Sample(
            seq[i], ends_s[i], intervals_s[i], sent[i], received[i], counters[i],
            tuple(cpus.get(seq[i], ())), tuple(streams.get(seq[i], ())), histograms.get(seq[i], {}),
            observations[i],
        )
        for i in range(count)
    ]  # fmt: skip


def _build_streams(columns: Mapping[str, Any]) -> dict[int, list[StreamSample]]:
    """Return the samples of streams by number of their sample."""
    by_seq: dict[int, list[StreamSample]] = {}
    if not columns:
        return by_seq
    seq, stream_ids, sizes, rtt, cwnd, retransmits = _number_columns(columns, _STREAM_NUMBERS)
    roles, parts = columns["role"], columns["load_part"]
    details = _columns_to_rows(_expect_object(columns["details"]), len(seq))
    if not len(roles) == len(parts) == len(seq) or {*map(type, roles), *map(type, parts)} != {str}:
        raise MalformedColumns("a stream has no role or no part of the load")
    for i, number in enumerate(seq):
        by_seq.setdefault(number, []).append(
            StreamSample(
                stream_ids[i], roles[i], sizes[i], rtt[i], cwnd[i], retransmits[i], details[i], parts[i]
            )
        )
    return by_seq


def _build_histograms_by_sample_and_kind(columns: Any) -> dict[int, dict[str, Histogram]]:
    """Return histograms by number of their sample, then by kind."""
    by_seq: dict[int, dict[str, Histogram]] = {}
    for each in _table_rows(columns):
        values, counts = each["values_ns"], each["counts"]
        if {*map(type, values), *map(type, counts)} - {int}:
            raise MalformedColumns("a histogram contains values that are not integers")
        by_seq.setdefault(each["seq"], {})[each["kind"]] = tuple(zip(values, counts, strict=True))
    return by_seq


def _build_observation(row: Mapping[str, Any] | None) -> Observation | None:
    if row is None:
        return None
    return Observation(
        row["thread_cpu_s"], row["interface_counters"], row.get("kvm_exits"), row.get("thread_wait_s", {})
    )


def _table_rows(columns: Any) -> list[dict[str, Any]]:
    table = _expect_object(columns)
    return _columns_to_rows(table, len(table["seq"])) if table else []


def _object_rows(columns: Any, count: int) -> Iterable[dict[str, Any] | None]:
    """Return the object of each row; None where a row has none."""
    if columns is None:
        return [None] * count
    if isinstance(columns, dict):
        return _columns_to_rows(columns, count)
    return [each and _expect_object(each) for each in columns]


def _number_columns(columns: Mapping[str, Any], names: Sequence[str]) -> list[list[Any]]:
    """Return these columns, which have numbers, and equal lengths."""
    chosen = [columns[name] for name in names]
    for name, values in zip(names, chosen, strict=True):
        allowed = {int, float, type(None)} if name in _OPTIONAL_NUMBERS else {int, float}
        if not isinstance(values, list) or len(values) != len(chosen[0]) or set(map(type, values)) - allowed:
            raise MalformedColumns(f"column {name} is not a list of numbers")
    return chosen


def _expect_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise MalformedColumns("an object is expected")
    return value
