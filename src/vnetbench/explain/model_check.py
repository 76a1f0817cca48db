"""What the law of a suspected limit gives for a treatment, held against what was measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from vnetbench.estimate.summary import TreatmentSummary
from vnetbench.explain.models import loss, tcp_window
from vnetbench.explain.phrases import figure_text

WINDOW_CAUSES = ("send_buffer", "receive_window", "congestion_window")
_STREAM_GOODPUT = "stream_goodput_bps"

MetricMedians = Mapping[str, float]
"""Medians over the trials, by the name of the figure."""


@dataclass(frozen=True)
class ModelCheck:
    """What a law says of a stream's goodput."""

    text: str
    details: Mapping[str, float]


def check_model(treatment: TreatmentSummary, cause: str) -> ModelCheck | None:
    """The law of that cause for a treatment; None where it has none, or a figure of it is not known."""
    if cause not in _MODEL_CHECKS:
        return None
    names, told = _MODEL_CHECKS[cause]
    figures = {name: values for name in names if (values := treatment.evidence_values(name))}
    if len(figures) < len(names) or median(figures["rtt_us"]) <= 0:
        return None
    return told({name: median(values) for name, values in figures.items()})


def _check_window_model(figures: MetricMedians) -> ModelCheck | None:
    window, rtt_us, got = (figures[name] for name in _WINDOW_METRICS)
    law = tcp_window.most_bps(window, rtt_us)
    if not tcp_window.follows(got, window, rtt_us):
        return None
    sizes = f"{figure_text('in_flight_bytes', window)} in each round trip of {figure_text('rtt_us', rtt_us)}"
    says = f"{sizes} make {figure_text(_STREAM_GOODPUT, law)}; a stream had {figure_text(_STREAM_GOODPUT, got)} acknowledged"
    return ModelCheck(says, {"window_law_bps": law, _STREAM_GOODPUT: got})


def _check_loss_model(figures: MetricMedians) -> ModelCheck | None:
    percent, mss, rtt_us, got = (figures[name] for name in _LOSS_METRICS)
    share = percent / 100
    if not 0 < share < 1 or not loss.follows(got, mss, rtt_us, share):
        return None
    reno, cubic = (law(mss, rtt_us, share) for law in (loss.padhye_bps, loss.cubic_bps))
    says = (
        f"at this loss and round trip reno carries {figure_text(_STREAM_GOODPUT, reno)} and cubic "
        f"{figure_text(_STREAM_GOODPUT, cubic)} by their laws; a stream had {figure_text(_STREAM_GOODPUT, got)} acknowledged"
    )
    return ModelCheck(says, {"reno_law_bps": reno, "cubic_law_bps": cubic, _STREAM_GOODPUT: got})


_WINDOW_METRICS = ("in_flight_bytes", "rtt_us", _STREAM_GOODPUT)
_LOSS_METRICS = ("path_loss_percent", "mss_bytes", "rtt_us", _STREAM_GOODPUT)
_MODEL_CHECKS: Mapping[str, tuple[Sequence[str], Callable[[MetricMedians], ModelCheck | None]]] = {
    **dict.fromkeys(WINDOW_CAUSES, (_WINDOW_METRICS, _check_window_model)),
    "path_loss": (_LOSS_METRICS, _check_loss_model),
}
