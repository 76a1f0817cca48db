"""The factors that a study may vary: looked up, their levels read and written, their defaults filled in."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from vnetbench.study.factors.factor import Factor
from vnetbench.study.factors.frame_factors import FRAME_FACTORS
from vnetbench.study.factors.frame_sizes import largest_packet_bytes, smallest_frame_bytes
from vnetbench.study.factors.guest_factors import GUEST_FACTORS
from vnetbench.study.factors.imported_factors import LABEL_PREFIX, is_label, label_factor
from vnetbench.study.factors.level_expressions import parse_levels
from vnetbench.study.factors.load_factors import LOAD_FACTORS
from vnetbench.study.factors.testbed_factors import TESTBED_FACTORS
from vnetbench.study.labs import HOSTS, IMPORTED, IPERF3, IPERF3_FACTORS, NETNS
from vnetbench.study.model import Level
from vnetbench.study.problems import WrongValue, suggest
from vnetbench.study.workloads import FRAME_WORKLOADS, TCP_STREAM

FACTORS: Mapping[str, Factor] = {
    factor.name: factor for factor in (*LOAD_FACTORS, *FRAME_FACTORS, *TESTBED_FACTORS, *GUEST_FACTORS)
}
"""Every factor by its name, in the order of the reference."""

_EQUIVALENT_FACTORS: Mapping[str, tuple[str, ...]] = {
    "streams": ("connections", "flows"),
    "connections": ("streams", "flows"),
    "rate": ("frame_load",),
    "message_size": ("request_size", "datagram_size", "frame_size"),
    "request_size": ("message_size", "datagram_size", "frame_size"),
    "datagram_size": ("message_size", "request_size", "frame_size"),
    "frame_size": ("datagram_size", "message_size", "request_size"),
    "frame_load": ("rate",),
}
"""What stands for a factor in other workloads, however unlike the words are."""


def find_factor(name: str) -> Factor:
    """The factor, or label, of that name; raises WrongValue with the nearest name."""
    if name in FACTORS:
        return FACTORS[name]
    if (named := label_factor(name)) is not None:
        return named
    if is_label(name):
        fix = f"write {LABEL_PREFIX} and letters, digits and underscores behind it, 40 at most"
        raise WrongValue(f'"{name[:60]}" is not a label', fix=fix)
    fix = suggest(name, FACTORS, otherwise=f"factors: {', '.join(FACTORS)}")
    raise WrongValue(f'"{name[:60]}" is not a factor', fix=fix)


def parse_level(name: str, raw: object) -> Level:
    """The canonical level of factor `name` from a raw TOML value or a text; raises a BenchError."""
    return find_factor(name).value_type.parse(raw)


def format_level(name: str, level: Level) -> str:
    """A canonical level as a person writes it: "64 KiB", "10 Gbit/s", "9000"; WrongValue for no factor."""
    return find_factor(name).value_type.format(level)


def format_levels(name: str, levels: Sequence[Level]) -> str:
    """Several levels as `--set` takes them: "1500,9000"; as a TOML list where commas would not part them."""
    kind = find_factor(name).value_type
    texts = [kind.format(level) for level in levels]
    joined = ",".join(texts)
    if tuple(level for _, level in parse_levels(kind, joined).levels) == tuple(levels):
        return joined
    return f"[{', '.join(map(json.dumps, texts))}]"


def has_factor_on(backend: str, name: str) -> bool:
    """Whether factor `name` can be set on this kind of testbed (`TestbedAsked.kind`)."""
    if backend == IMPORTED:
        return True
    return name in IPERF3_FACTORS if backend == IPERF3 else backend in find_factor(name).labs


def complete_levels(
    levels: Mapping[str, Level], workload: str = TCP_STREAM, backend: str = NETNS
) -> dict[str, Level]:
    """The levels of a treatment with the defaults, of workload and testbed, of the factors that it lacks.

    Of frames: the smallest that there are, and an MTU that the largest of them fits, where none is named.
    Of imported results nothing is filled in.
    """
    if backend == IMPORTED:
        return dict(levels)
    found = {**_default_levels(workload, backend), **levels}
    if workload in FRAME_WORKLOADS:
        found["frame_size"] = levels.get("frame_size", smallest_frame_bytes(found))
        if "mtu" in found and "mtu" not in levels:
            found["mtu"] = max(int(found["mtu"]), largest_packet_bytes(found))
    return found


def _default_levels(workload: str, backend: str) -> dict[str, Level]:
    # What nobody asks to change on a host that exists is left as it is.
    made_by_us = (*LOAD_FACTORS, *FRAME_FACTORS) if backend == HOSTS else FACTORS.values()
    return {
        factor.name: default
        for factor in made_by_us
        if workload in factor.workloads
        and has_factor_on(backend, factor.name)
        and (default := factor.workload_defaults.get(workload, factor.default)) is not None
    }


def check_factor_workload(name: str, workload: str) -> None:
    """Raises WrongValue with the nearest factor where factor `name` does not hold for the workload."""
    if workload in find_factor(name).workloads:
        return
    here = [factor.name for factor in FACTORS.values() if workload in factor.workloads]
    counterpart = next((other for other in _EQUIVALENT_FACTORS.get(name, ()) if other in here), None)
    fix = (
        f'did you mean "{counterpart}"?'
        if counterpart
        else suggest(name, here, otherwise=f"its factors: {', '.join(here)}")
    )
    raise WrongValue(f"{name} is not a factor of the workload {workload}", fix=fix)
