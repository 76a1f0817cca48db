"""The factors that a study may vary: looked up, their levels read and written, their defaults filled in."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from vnetbench.study.factors.factor import Factor
from vnetbench.study.factors.frame_factors import FRAME_FACTORS
from vnetbench.study.factors.frame_sizes import least_frame, packet_bytes
from vnetbench.study.factors.guest_factors import GUEST_FACTORS
from vnetbench.study.factors.imported_factors import LABEL_PREFIX, is_label, label
from vnetbench.study.factors.level_expressions import read_levels
from vnetbench.study.factors.load_factors import LOAD_FACTORS
from vnetbench.study.factors.testbed_factors import TESTBED_FACTORS
from vnetbench.study.labs import HOSTS, IMPORTED, IPERF3, NETNS, OF_IPERF3
from vnetbench.study.model import Level
from vnetbench.study.problems import WrongValue, suggest
from vnetbench.study.workloads import OF_FRAMES, STREAM

FACTORS: Mapping[str, Factor] = {
    factor.name: factor for factor in (*LOAD_FACTORS, *FRAME_FACTORS, *TESTBED_FACTORS, *GUEST_FACTORS)
}
"""Every factor by its name, in the order of the reference."""

_COUNTERPARTS: Mapping[str, tuple[str, ...]] = {
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


def factor_named(name: str) -> Factor:
    """The factor, or label, of that name; raises WrongValue with the nearest name."""
    if name in FACTORS:
        return FACTORS[name]
    if (named := label(name)) is not None:
        return named
    if is_label(name):
        fix = f"write {LABEL_PREFIX} and letters, digits and underscores behind it, 40 at most"
        raise WrongValue(f'"{name[:60]}" is not a label', fix=fix)
    fix = suggest(name, FACTORS, otherwise=f"factors: {', '.join(FACTORS)}")
    raise WrongValue(f'"{name[:60]}" is not a factor', fix=fix)


def parse_level(name: str, raw: object) -> Level:
    """The canonical level of factor `name` from a raw TOML value or a text; raises a BenchError."""
    return factor_named(name).kind.parse(raw)


def format_level(name: str, level: Level) -> str:
    """A canonical level as a person writes it: "64 KiB", "10 Gbit/s", "9000"; WrongValue for no factor."""
    return factor_named(name).kind.spell(level)


def format_levels(name: str, levels: Sequence[Level]) -> str:
    """Several levels as `--set` takes them: "1500,9000"; as a TOML list where commas would not part them."""
    kind = factor_named(name).kind
    texts = [kind.spell(level) for level in levels]
    joined = ",".join(texts)
    if tuple(level for _, level in read_levels(kind, joined).levels) == tuple(levels):
        return joined
    return f"[{', '.join(map(json.dumps, texts))}]"


def has_factor(bed: str, name: str) -> bool:
    """Whether factor `name` can be set on this kind of testbed (`TestbedAsked.kind`)."""
    if bed == IMPORTED:
        return True
    return name in OF_IPERF3 if bed == IPERF3 else bed in factor_named(name).labs


def complete(levels: Mapping[str, Level], workload: str = STREAM, bed: str = NETNS) -> dict[str, Level]:
    """The levels of a treatment with the defaults, of workload and testbed, of the factors that it lacks.

    Of frames: the smallest that there are, and an MTU that the largest of them fits, where none is named.
    Of imported results nothing is filled in.
    """
    if bed == IMPORTED:
        return dict(levels)
    found = {**_defaults(workload, bed), **levels}
    if workload in OF_FRAMES:
        found["frame_size"] = levels.get("frame_size", least_frame(found))
        if "mtu" in found and "mtu" not in levels:
            found["mtu"] = max(int(found["mtu"]), packet_bytes(found))
    return found


def _defaults(workload: str, bed: str) -> dict[str, Level]:
    # What nobody asks to change on a host that exists is left as it is.
    made_by_us = (*LOAD_FACTORS, *FRAME_FACTORS) if bed == HOSTS else FACTORS.values()
    return {
        factor.name: default
        for factor in made_by_us
        if workload in factor.workloads
        and has_factor(bed, factor.name)
        and (default := factor.defaults.get(workload, factor.default)) is not None
    }


def check_workload(name: str, workload: str) -> None:
    """Raises WrongValue with the nearest factor where factor `name` does not hold for the workload."""
    if workload in factor_named(name).workloads:
        return
    here = [factor.name for factor in FACTORS.values() if workload in factor.workloads]
    counterpart = next((other for other in _COUNTERPARTS.get(name, ()) if other in here), None)
    fix = (
        f'did you mean "{counterpart}"?'
        if counterpart
        else suggest(name, here, otherwise=f"its factors: {', '.join(here)}")
    )
    raise WrongValue(f"{name} is not a factor of the workload {workload}", fix=fix)
