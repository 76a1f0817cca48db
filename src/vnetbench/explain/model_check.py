"""Compare a stream's measured goodput with the throughput model of its suspected limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from vnetbench.estimate.summary import TreatmentSummary
from vnetbench.explain.models import loss, tcp_window
from vnetbench.explain.phrases import format_metric

WINDOW_CAUSES = ("send_buffer", "receive_window", "congestion_window")
_STREAM_GOODPUT_METRIC = "stream_goodput_bps"

MetricMedians = Mapping[str, float]
"""Median over the trials, by metric."""


@dataclass(frozen=True)
class _ThroughputModel:
    """A model of a stream's goodput under one limit."""

    input_metrics: Sequence[str]
    """Metrics that the model needs."""
    find_agreement: Callable[[MetricMedians], ModelAgreement | None]
    """Compares the measured goodput with the model; returns None if they disagree."""


@dataclass(frozen=True)
class ModelAgreement:
    """A model's goodput per stream, in agreement with the measured one."""

    text: str
    """Complete sentences."""
    goodput_bps_by_law_or_metric: Mapping[str, float]
    """Modelled and measured goodput, bit/s."""


def find_model_agreement(treatment: TreatmentSummary, cause: str) -> ModelAgreement | None:
    """Return the check of a cause's model; None without a model, its metrics, or agreement."""
    if (model := _MODELS_BY_CAUSE.get(cause)) is None:
        return None
    values = {name: trials for name in model.input_metrics if (trials := treatment.evidence_values(name))}
    if len(values) < len(model.input_metrics) or median(values["rtt_us"]) <= 0:
        return None
    return model.find_agreement({name: median(trials) for name, trials in values.items()})


def _find_window_model_agreement(medians: MetricMedians) -> ModelAgreement | None:
    window, rtt_us, goodput = (medians[name] for name in _WINDOW_MODEL_METRIC_NAMES)
    if not tcp_window.is_goodput_consistent_with_window(goodput, window, rtt_us):
        return None
    model = tcp_window.max_goodput_bps(window, rtt_us)
    text = (
        f"A window of {format_metric('in_flight_bytes', window)} and a round-trip time of "
        f"{format_metric('rtt_us', rtt_us)} allow {format_metric(_STREAM_GOODPUT_METRIC, model)} per stream. "
        f"The measured goodput is {format_metric(_STREAM_GOODPUT_METRIC, goodput)} per stream."
    )
    return ModelAgreement(text, {"window_law_bps": model, _STREAM_GOODPUT_METRIC: goodput})


def _find_loss_model_agreement(medians: MetricMedians) -> ModelAgreement | None:
    percent, mss, rtt_us, goodput = (medians[name] for name in _LOSS_MODEL_METRIC_NAMES)
    ratio = percent / 100
    if not 0 < ratio < 1 or not loss.is_rate_consistent_with_loss(goodput, mss, rtt_us, ratio):
        return None
    reno, cubic = (model(mss, rtt_us, ratio) for model in (loss.padhye_rate_bps, loss.cubic_rate_bps))
    text = (
        "For the measured loss and round-trip time, models of TCP predict "
        f"{format_metric(_STREAM_GOODPUT_METRIC, reno)} per stream "
        f"with reno and {format_metric(_STREAM_GOODPUT_METRIC, cubic)} with cubic. "
        f"The measured goodput is {format_metric(_STREAM_GOODPUT_METRIC, goodput)} per stream."
    )
    return ModelAgreement(
        text, {"reno_law_bps": reno, "cubic_law_bps": cubic, _STREAM_GOODPUT_METRIC: goodput}
    )


_WINDOW_MODEL_METRIC_NAMES = ("in_flight_bytes", "rtt_us", _STREAM_GOODPUT_METRIC)
_LOSS_MODEL_METRIC_NAMES = ("path_loss_percent", "mss_bytes", "rtt_us", _STREAM_GOODPUT_METRIC)
_MODELS_BY_CAUSE: Mapping[str, _ThroughputModel] = {
    **dict.fromkeys(
        WINDOW_CAUSES, _ThroughputModel(_WINDOW_MODEL_METRIC_NAMES, _find_window_model_agreement)
    ),
    "path_loss": _ThroughputModel(_LOSS_MODEL_METRIC_NAMES, _find_loss_model_agreement),
}
