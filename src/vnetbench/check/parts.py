"""The parts of a check: built-in studies, each of which makes one ordinary results file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from vnetbench.check.ends import CheckedPath
from vnetbench.quantity import parse_duration
from vnetbench.study.factors.registry import FACTORS
from vnetbench.study.file.load import parse_study
from vnetbench.study.model import Study
from vnetbench.study.workloads import WORKLOADS

GOODPUT, LATENCY, PACKETS = "goodput", "latency", "packets"
PART_NAMES = (GOODPUT, LATENCY, PACKETS)
"""All parts, in the order in which a check runs them."""
QUICK, NORMAL, THOROUGH = "quick", "normal", "thorough"

_FOLDER = files("vnetbench.check")
_DATAGRAM_FRAME_BITS = 8 * (64 + 8 + 20 + 14 + 4)
"""Bits of a frame with a datagram of 64 bytes: headers of UDP, IPv4 and Ethernet, and the checksum."""
_LOW_DATAGRAM_RATE_PER_S = 2000.0
"""Rate of the datagrams that measure loss; `packets.toml` has the same value."""
_INITIAL_WINDOW_BITS = 10 * 1500 * 8
"""Data of a new connection that the kernel does not pace: its initial window (RFC 6928)."""
_MAX_EXCESS_SHARE = 0.1
"""Share by which the first packets may exceed --max-rate in the mean of a trial."""
_LONGEST_MESSAGE_S = 0.005
"""Time that a paced iperf3 server takes for one message."""
_SMALLEST_MESSAGE_BYTES = 1448
_USUAL_MESSAGE_BYTES = 128 * 1024
"""The default of the factor `message_size`, which is iperf3's too."""
_USUAL_DURATION = "500 ms"
"""Shortest duration of the trials where a study requests none."""


@dataclass(frozen=True)
class Part:
    """One part of a check."""

    name: str
    study: Study

    @property
    def max_duration_s(self) -> float:
        """The time limit of its campaign in seconds."""
        return self.study.precision.campaign_time_limit_s or 0.0

    def results_path(self, output: Path) -> Path:
        """Return its results file: the first part has the path of `-o`, the others their names in it."""
        return (
            output if self.name == GOODPUT else output.with_name(f"{output.stem}.{self.name}{output.suffix}")
        )


def make_parts(
    path: CheckedPath, depth: str, max_rate_bps: int | None, overrides: Sequence[str] = ()
) -> tuple[Part, ...]:
    """Return the parts that the ends allow.

    Args:
        path: The ends.
        depth: `quick`, `normal` or `thorough`.
        max_rate_bps: Limit of the load in each direction; None: no limit.
        overrides: `--set` arguments. Each applies to the parts whose workload has the factor.

    Raises:
        BenchError: An override is wrong.
    """
    names = PART_NAMES if path.has_both_agents else (GOODPUT,)
    return tuple(_make_part(name, path, depth, max_rate_bps, overrides) for name in names)


def _make_part(
    name: str, path: CheckedPath, depth: str, max_rate_bps: int | None, overrides: Sequence[str]
) -> Part:
    text = (_FOLDER / "studies" / f"{name}.toml").read_text(encoding="utf-8")
    workload = str(tomllib.loads(text)["workload"])
    settings = dict(_read_depths()[depth][name])
    if max_rate_bps is not None and name == PACKETS:
        settings["rate"] = _datagram_rates(max_rate_bps)
    elif max_rate_bps is not None:
        counts = [int(each) for each in settings.get("streams", "1,4" if name == GOODPUT else "4").split(",")]
        text = _add_pacing(text, counts, max_rate_bps)
        settings |= _duration_that_hides_the_first_burst(max(counts), max_rate_bps, settings)
        if not path.has_both_agents:
            settings["message_size"] = _message_size_for_rate(max_rate_bps / max(counts))
    text = f"{text}\n{path.testbed_toml()}"
    own = [each for each in overrides if _applies_to(each, workload)]
    for override in own:
        settings.pop(override.partition("=")[0].strip(), None)
    return Part(name, parse_study(text, None, [*(f"{key}={value}" for key, value in settings.items()), *own]))


def _duration_that_hides_the_first_burst(
    stream_count: int, max_rate_bps: int, settings: Mapping[str, str]
) -> dict[str, str]:
    """Return a duration of the trials in which the unpaced first packets add little to the limit.

    Empty if the trials are long enough anyway.
    """
    first_bits = stream_count * _INITIAL_WINDOW_BITS
    needed_s = first_bits / (_MAX_EXCESS_SHARE * max_rate_bps)
    usual_s = parse_duration(settings.get("timing.duration", _USUAL_DURATION))
    return {} if needed_s <= usual_s else {"timing.duration": f"{1000 * needed_s:.0f} ms"}


def _message_size_for_rate(stream_bps: float) -> str:
    """Return a size of messages that an iperf3 server sends evenly: it only pauses between two messages."""
    longest_bytes = int(stream_bps / 8 * _LONGEST_MESSAGE_S)
    return f"{min(max(longest_bytes, _SMALLEST_MESSAGE_BYTES), _USUAL_MESSAGE_BYTES)} B"


@lru_cache
def _read_depths() -> Mapping[str, Mapping[str, Mapping[str, str]]]:
    depths: Mapping[str, Mapping[str, Mapping[str, str]]] = tomllib.loads(
        (_FOLDER / "depths.toml").read_text(encoding="utf-8")
    )
    return depths


def _applies_to(override: str, workload: str) -> bool:
    """Return whether an override applies to a workload. An unknown key applies, so that it is an error."""
    key = override.partition("=")[0].strip()
    return key not in FACTORS or FACTORS[key].has_workload(WORKLOADS[workload].name)


def _datagram_rates(max_rate_bps: int) -> str:
    """Return the two rates of datagrams: the limit, and the low rate that measures loss."""
    fastest = max_rate_bps / _DATAGRAM_FRAME_BITS
    return f"{fastest:.1f} /s, {min(_LOW_DATAGRAM_RATE_PER_S, fastest / 2):.1f} /s"


def _add_pacing(text: str, stream_counts: Sequence[int], max_rate_bps: int) -> str:
    """Return the study with its streams paced, so that all streams of a direction share the limit."""
    rate_by_count = {count: f"{max_rate_bps // count} bit/s" for count in stream_counts}
    rates = ", ".join(f'"{rate}"' for rate in rate_by_count.values())
    paced = text.replace("[factors]\n", f"[factors]\npacing_rate = [{rates}]\n")
    exclusions = (
        f'\n[[exclude]]\nstreams = {count}\npacing_rate = "{other}"\n'
        for count, rate in rate_by_count.items()
        for other in rate_by_count.values()
        if other != rate
    )
    return paced + "".join(exclusions)
