"""Texts of measurements."""

from __future__ import annotations

from vnetbench.check.measurements import Measurement
from vnetbench.quantity import format_interval, format_value


def format_measurement(measurement: Measurement) -> str:
    """Return the value with its interval and unit: `941 [939, 943] Mbit/s`; a path MTU is exact."""
    if measurement.name == "path_mtu":
        return f"{measurement.value:.0f} B"
    return format_interval(measurement.value, measurement.low, measurement.high, measurement.unit).text


def format_cell(measurement: Measurement) -> str:
    """Return the value with the wider side of its interval, for a table: `941 ± 2 Mbit/s`."""
    if measurement.name == "path_mtu":
        return format_measurement(measurement)
    text = format_interval(measurement.value, measurement.low, measurement.high, measurement.unit)
    return f"{text.value} {text.plus_minus or '± ?'} {text.unit}"


def format_plain(measurement: Measurement) -> str:
    """Return the value and its unit without the interval, for a sentence."""
    return format_value(measurement.value, measurement.unit)
