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
from vnetbench.results.records import (
    EndpointRecord,
    Observation,
    Sample,
    StepRecord,
    TreatmentRecord,
    TrialRecord,
)

_MAX_NUMBER = 2.0**64
"""Largest absolute value: a counter of 64 bits."""
_MAX_DEPTH = 40
_NUMBER_TYPES = {int, float}
_LEVEL_TYPES = (str, int, float)
VALUE_ERRORS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What Python raises for a value of another type or range than expected."""


class _InvalidValue(ValueError):
    """A stored value that no bench writes."""


def refuse_to_store_unreadable(path: Path, what: str, value: object) -> None:
    """Raise BenchError if the file's reader would refuse this JSON value: nothing of it is to be stored."""
    try:
        check_json_is_storable(value, what)
    except VALUE_ERRORS as error:
        raise BenchError(
            f"cannot store {what}, because the results file would be unreadable ({error})",
            where=str(path),
            fix="an agent or a log has this value: check that the agent has this version, or repair the log",
        ) from error


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
    except VALUE_ERRORS as error:
        where = f"{path}, {what}" if what else str(path)
        raise BenchError(
            f"the file contains a value that no version of vnetbench writes ({_describe_error(error)})",
            where=where,
            fix="get the file again from its author. If vnetbench wrote the value, report this as a defect",
        ) from error


def check_treatment(record: TreatmentRecord) -> TreatmentRecord:
    """Return the record; raises ValueError or TypeError if its factors are not levels."""
    check_json_is_storable(record.factors, "factors")
    if not isinstance(record.factors, Mapping) or not all(
        type(level) in _LEVEL_TYPES for level in record.factors.values()
    ):
        raise _InvalidValue("the factors are not names and levels")
    _check_text(record.state, record.reason)
    return record


def check_elapsed_time_and_parse_overrides(overrides: object, elapsed_s: object) -> tuple[str, ...]:
    """Return the `--set` arguments; raises ValueError for other types and an invalid time."""
    _check_numbers("elapsed_s", elapsed_s)
    if not isinstance(overrides, list) or not all(isinstance(each, str) for each in overrides):
        raise _InvalidValue("the overrides are not a list of texts")
    return tuple(overrides)


def check_trial(record: TrialRecord, treatment_ids: Collection[int]) -> TrialRecord:
    """Return the record; raises ValueError or TypeError if one of its values is invalid."""
    if record.treatment not in treatment_ids:
        raise _InvalidValue(f"treatment {record.treatment} does not exist")
    _check_numbers("trial", record.block, record.since_campaign_start_s, record.duration_s, record.setup_s)
    _check_numbers("trial", record.idle_s)
    check_json_is_storable(record.effective, "effective")
    if not isinstance(record.effective, Mapping):
        raise _InvalidValue("effective is not an object")
    if not all(isinstance(note, str) for note in record.notes):
        raise _InvalidValue("a note is not a text")
    _check_text(record.failure, record.testbed_shape or "", *record.notes)
    for endpoint in record.endpoints:
        check_endpoint(endpoint)
    for step in record.steps:
        check_step(step)
    return record


def check_step(step: StepRecord) -> StepRecord:
    """Return the record; raises ValueError or TypeError if one of its values is invalid."""
    _check_numbers(
        "step",
        step.number,
        step.duration_s,
        step.since_campaign_start_s,
        step.elapsed_s,
        step.sent,
        step.received,
    )
    _check_numbers("step", step.load_fps or 0, step.burst_frames or 0)
    check_json_is_storable(step.details, "details of a step")
    if not isinstance(step.details, Mapping):
        raise _InvalidValue("the details of a step are not an object")
    return step


def check_json_is_storable(value: object, name: str) -> None:
    """Raise ValueError if a JSON value has a number out of range, text that is no Unicode, or great depth.

    It works on one level of nesting after the other: on whole lists, because it runs for every trial.
    """
    numbers: list[float] = []
    texts: list[str] = []
    level: list[object] = [value]
    for _ in range(_MAX_DEPTH):
        below: list[object] = []
        for each in level:
            kind = type(each)
            if kind is str:
                texts.append(each)  # type: ignore[arg-type]  # a text
            elif kind is int or kind is float:
                numbers.append(each)  # type: ignore[arg-type]  # a number
            elif isinstance(each, dict):
                texts += each
                below += each.values()
            elif isinstance(each, list):
                below += each
        level = below
        if not level:
            break
    else:
        raise _InvalidValue(f"{name}: JSON is nested too deeply")
    _check_text("".join(texts))
    if numbers and not (
        min(numbers) >= -_MAX_NUMBER and max(numbers) <= _MAX_NUMBER and math.isfinite(sum(numbers))
    ):
        raise _InvalidValue(f"{name}: a number is out of range")


def check_objects(values: Mapping[str, object], name: str) -> None:
    """Raise ValueError unless each value is a JSON object without invalid values."""
    check_json_is_storable(values, name)
    if not all(isinstance(value, Mapping) for value in values.values()):
        raise _InvalidValue(f"{name}: a value is not an object")


def check_endpoint(endpoint: EndpointRecord) -> None:
    """Raise one of VALUE_ERRORS if the totals or samples have a value that the file's reader refuses."""
    _check_text(endpoint.name, endpoint.role)
    check_json_is_storable(endpoint.totals, "totals")
    if not isinstance(endpoint.totals, Mapping):
        raise _InvalidValue("totals are not an object")
    _check_numbers("totals", endpoint.bytes_sent, endpoint.bytes_received)
    # One check of all numbers takes a fifth of the time of one check of each sample.
    numbers: list[object] = []
    for sample in endpoint.samples:
        _collect_numbers(sample, numbers)
        if sample.observation is not None:
            _check_observation(sample.observation)
    _check_numbers(f"samples of {endpoint.name}", *numbers)
    if any(sample.interval_s <= 0 for sample in endpoint.samples):
        raise _InvalidValue(f"samples of {endpoint.name}: an interval is not positive")


def _collect_numbers(sample: Sample, numbers: list[object]) -> None:
    """Append all values of a sample that have to be numbers from 0 on; raises AttributeError."""
    numbers += (sample.seq, sample.end_s, sample.interval_s, sample.bytes_sent, sample.bytes_received)
    numbers += sample.counters.values()
    for cpu in sample.cpu:
        numbers += cpu.values()
    for stream in sample.streams:
        numbers += (stream.stream_id, stream.bytes)
        numbers += (stream.rtt_us or 0, stream.cwnd or 0, stream.retransmits or 0)
        lost = stream.details.get("lost")
        if isinstance(lost, int) and lost < 0:  # Some that were counted as lost arrived late.
            numbers += {**stream.details, "lost": -lost}.values()
        else:
            numbers += stream.details.values()
        _check_text(stream.role, stream.load_part)
    for histogram in sample.histograms.values():
        for bucket in histogram:
            numbers += bucket


def _check_observation(observation: Observation) -> None:
    for values in (observation.thread_cpu_s, observation.thread_wait_s, observation.kvm_exits or {}):
        _check_numbers("observation", *values.values())
    check_objects(observation.interface_counters, "interfaces")


def _check_numbers(name: str, *numbers: object) -> None:
    if not set(map(type, numbers)) <= _NUMBER_TYPES:
        raise _InvalidValue(f"{name}: a value has another type than a number")
    values: tuple[float, ...] = numbers  # type: ignore[assignment]  # the line above checks it
    if values and not (min(values) >= 0 and max(values) <= _MAX_NUMBER and math.isfinite(sum(values))):
        raise _InvalidValue(f"{name}: a number is negative or out of range")


def _check_text(*texts: str) -> None:
    for text in texts:
        if not text.isascii():
            text.encode()  # raises ValueError for half a surrogate pair, which cannot be printed


def _describe_error(error: BaseException) -> str:
    """Return the text of an error, with the line of code that raised it unless this module raised it."""
    if isinstance(error, _InvalidValue):
        return str(error)
    place, trace = "", error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if "vnetbench" in code.co_filename:
            place = f" at {Path(code.co_filename).name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return f"{type(error).__name__}{place}: {str(error)[:80]}"
