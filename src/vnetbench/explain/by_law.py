"""What the law of a suspected limit gives for a treatment, held against what was measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from vnetbench.estimate.summary import TreatmentSummary
from vnetbench.explain.models import loss, tcp_window
from vnetbench.explain.words import figure_text

WINDOWS = ("send_buffer", "receive_window", "congestion_window")
_STREAM = "stream_goodput_bps"

Figures = Mapping[str, float]
"""Medians over the trials, by the name of the figure."""


@dataclass(frozen=True)
class ByLaw:
    """What a law says of a stream's goodput."""

    says: str
    details: Mapping[str, float]


def by_law(treatment: TreatmentSummary, cause: str) -> ByLaw | None:
    """The law of that cause for a treatment; None where it has none, or a figure of it is not known."""
    if cause not in _LAWS:
        return None
    names, told = _LAWS[cause]
    figures = {name: values for name in names if (values := treatment.evidence_of(name))}
    if len(figures) < len(names) or median(figures["rtt_us"]) <= 0:
        return None
    return told({name: median(values) for name, values in figures.items()})


def _window(figures: Figures) -> ByLaw | None:
    window, rtt_us, got = (figures[name] for name in _OF_WINDOWS)
    law = tcp_window.most_bps(window, rtt_us)
    if not tcp_window.follows(got, window, rtt_us):
        return None
    sizes = f"{figure_text('in_flight_bytes', window)} in each round trip of {figure_text('rtt_us', rtt_us)}"
    says = f"{sizes} make {figure_text(_STREAM, law)}; a stream had {figure_text(_STREAM, got)} acknowledged"
    return ByLaw(says, {"window_law_bps": law, _STREAM: got})


def _loss(figures: Figures) -> ByLaw | None:
    percent, mss, rtt_us, got = (figures[name] for name in _OF_LOSS)
    share = percent / 100
    if not 0 < share < 1 or not loss.follows(got, mss, rtt_us, share):
        return None
    reno, cubic = (law(mss, rtt_us, share) for law in (loss.padhye_bps, loss.cubic_bps))
    says = (
        f"at this loss and round trip reno carries {figure_text(_STREAM, reno)} and cubic "
        f"{figure_text(_STREAM, cubic)} by their laws; a stream had {figure_text(_STREAM, got)} acknowledged"
    )
    return ByLaw(says, {"reno_law_bps": reno, "cubic_law_bps": cubic, _STREAM: got})


_OF_WINDOWS = ("in_flight_bytes", "rtt_us", _STREAM)
_OF_LOSS = ("path_loss_percent", "mss_bytes", "rtt_us", _STREAM)
_LAWS: Mapping[str, tuple[Sequence[str], Callable[[Figures], ByLaw | None]]] = {
    **dict.fromkeys(WINDOWS, (_OF_WINDOWS, _window)),
    "path_loss": (_OF_LOSS, _loss),
}
