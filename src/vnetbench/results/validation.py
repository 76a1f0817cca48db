"""Validate what a results file stores: a file from an attacker can contain any value in any place.

SQLite checks the types of columns (STRICT tables). This module checks what SQLite cannot: JSON, ranges of
numbers, and references between tables.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from vnetbench.errors import BenchError
from vnetbench.results.records import EndpointRecord, Sample, StepRecord, TreatmentRecord, TrialRecord

_MAX_NUMBER = 2.0**64
"""Largest absolute value: a counter of 64 bits."""
_MAX_DEPTH = 40
_NUMBER_TYPES = {int, float}
_LEVEL_TYPES = (str, int, float)
_VALUE_ERRORS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What Python raises for a value of another type or range than expected."""


class _InvalidValue(ValueError):
    """A stored value that no bench writes."""


@contextmanager
def translate_value_errors(path: Path, what: str = "") -> Iterator[None]:
    """Turn an error about a stored value into BenchError.

    Args:
        path: The results file.
        what: Where the values are, such as "treatment 3".

    Raises:
        BenchError: A value has another type or range than a bench writes.
    """
    try:
        yield
    except BenchError:
        raise
    except _VALUE_ERRORS as error:
        where = f"{path}, {what}" if what else str(path)
        raise BenchError(
            f"the file contains a value that no vnetbench writes ({_describe(error)})",
            where=where,
            fix="get the file again from its author. If a bench wrote it so, report this message as a defect",
        ) from error


def check_treatment(record: TreatmentRecord) -> TreatmentRecord:
    """Return the record; raises ValueError or TypeError if its factors are not levels."""
    check_json(record.factors, "factors")
    if not isinstance(record.factors, Mapping) or not all(
        type(level) in _LEVEL_TYPES for level in record.factors.values()
    ):
        raise _InvalidValue("the factors are not names and levels")
    _check_text(record.state, record.reason)
    return record


def check_campaign(overrides: object, elapsed_s: object) -> tuple[str, ...]:
    """Return the `--set` arguments; raises ValueError for other types and an invalid time."""
    _check_numbers("elapsed_s", elapsed_s)
    if not isinstance(overrides, list) or not all(isinstance(each, str) for each in overrides):
        raise _InvalidValue("the overrides are no list of texts")
    return tuple(overrides)


def check_trial(record: TrialRecord, treatment_ids: Collection[int]) -> TrialRecord:
    """Return the record; raises ValueError or TypeError if one of its values is invalid."""
    if record.treatment not in treatment_ids:
        raise _InvalidValue(f"treatment {record.treatment} does not exist")
    _check_numbers("trial", record.block, record.since_campaign_start_s, record.duration_s, record.setup_s)
    _check_numbers("trial", record.idle_s)
    check_json(record.effective, "effective")
    if not isinstance(record.effective, Mapping):
        raise _InvalidValue("effective is no object")
    if not all(isinstance(note, str) for note in record.notes):
        raise _InvalidValue("a note is no text")
    _check_text(record.failure, record.testbed_shape or "", *record.notes)
    for endpoint in record.endpoints:
        _check_endpoint(endpoint)
    for step in record.steps:
        check_step(step)
    return record


def check_step(step: StepRecord) -> StepRecord:
    """Return the record; raises ValueError or TypeError if one of its values is invalid."""
    _check_numbers(
        "step", step.number, step.duration_s, step.started_s, step.elapsed_s, step.sent, step.received
    )
    _check_numbers("step", step.load_fps or 0, step.burst_frames or 0)
    check_json(step.details, "details of a step")
    if not isinstance(step.details, Mapping):
        raise _InvalidValue("the details of a step are no object")
    return step


def check_json(value: object, name: str, depth: int = 0) -> None:
    """Raise ValueError if a JSON value has a number out of range, text that is no Unicode, or great depth."""
    if isinstance(value, str):
        _check_text(value)
    elif isinstance(value, int | float):
        if not abs(value) <= _MAX_NUMBER:  # also not a number
            raise _InvalidValue(f"{name}: a number is out of range")
    elif isinstance(value, Mapping | list | tuple):
        if depth > _MAX_DEPTH:
            raise _InvalidValue(f"{name}: JSON is nested too deeply")
        for each in (*value, *value.values()) if isinstance(value, Mapping) else value:
            check_json(each, name, depth + 1)


def check_objects(values: Mapping[str, object], name: str) -> None:
    """Raise ValueError unless each value is a JSON object without invalid values."""
    check_json(values, name)
    if not all(isinstance(value, Mapping) for value in values.values()):
        raise _InvalidValue(f"{name}: a value is no object")


def _check_endpoint(endpoint: EndpointRecord) -> None:
    _check_text(endpoint.name, endpoint.role)
    check_json(endpoint.totals, "totals")
    if not isinstance(endpoint.totals, Mapping):
        raise _InvalidValue("totals are no object")
    _check_numbers("totals", endpoint.bytes_sent, endpoint.bytes_received)
    for sample in endpoint.samples:
        _check_sample(sample)


def _check_sample(sample: Sample) -> None:
    _check_numbers("sample", sample.seq, sample.end_s, sample.bytes_sent, sample.bytes_received)
    if not 0 < sample.interval_s <= _MAX_NUMBER:
        raise _InvalidValue("the interval of a sample is not positive")
    _check_counters("counters", sample.counters)
    for cpu in sample.cpu:
        _check_counters("cpu", cpu)
    for stream in sample.streams:
        _check_numbers(
            "stream",
            stream.stream_id,
            stream.bytes,
            stream.rtt_us or 0,
            stream.cwnd or 0,
            stream.retransmits or 0,
        )
        _check_text(stream.role, stream.load_part)
        _check_counters("details of a stream", stream.details)
    for histogram in sample.histograms.values():
        if any(not (0 <= value <= _MAX_NUMBER and 0 <= count <= _MAX_NUMBER) for value, count in histogram):
            raise _InvalidValue("a histogram has a negative value")
    if (observation := sample.observation) is not None:
        _check_counters("threads", observation.thread_cpu_s)
        _check_counters("threads", observation.thread_wait_s)
        if observation.kvm_exits is not None:
            _check_counters("kvm_exits", observation.kvm_exits)
        check_objects(observation.interface_counters, "interfaces")


def _check_counters(name: str, counters: Mapping[str, object]) -> None:
    """Raise ValueError unless all values are numbers from 0 on; this runs for each sample, so it is short."""
    if not isinstance(counters, Mapping):
        raise _InvalidValue(f"{name}: no object")
    _check_numbers(name, *counters.values())


def _check_numbers(name: str, *numbers: object) -> None:
    if not set(map(type, numbers)) <= _NUMBER_TYPES:
        raise _InvalidValue(f"{name}: a value is no number")
    values: tuple[float, ...] = numbers  # type: ignore[assignment]  # the line above checks it
    if values and not (min(values) >= 0 and max(values) <= _MAX_NUMBER and math.isfinite(sum(values))):
        raise _InvalidValue(f"{name}: a number is negative or out of range")


def _check_text(*texts: str) -> None:
    for text in texts:
        if not text.isascii():
            text.encode()  # raises ValueError for half a surrogate pair, which cannot be printed


def _describe(error: BaseException) -> str:
    """Return an error and, unless it says what is wrong with a value, the line of code that raised it."""
    if isinstance(error, _InvalidValue):
        return str(error)
    place, trace = "", error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if "vnetbench" in code.co_filename:
            place = f" at {Path(code.co_filename).name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return f"{type(error).__name__}{place}: {str(error)[:80]}"
