"""Level rules of frames: sizes, loads and directions that contradict each other."""

from __future__ import annotations

from vnetbench.study.factors.directions import DIRECTION_SHARES
from vnetbench.study.factors.frame_sizes import (
    frame_mix,
    largest_packet_bytes,
    smallest_frame_bytes,
    throughput_share,
)
from vnetbench.study.model import Study
from vnetbench.study.rules.rule import EXCLUDE_FIX, LevelRule, TreatmentLevels, has_other_level
from vnetbench.study.workloads import FRAME_LATENCY, SOAK, WORKLOADS, SearchUse


def frame_size_texts(levels: TreatmentLevels) -> dict[str, str]:
    """Return the frame sizes of a treatment that the rules' messages name."""
    if "frame_size" not in levels:
        return {}
    return {
        "smallest_frame": str(smallest_frame_bytes(levels)),
        "packet_bytes": str(largest_packet_bytes(levels)),
    }


def _is_too_small(levels: TreatmentLevels, _: Study) -> bool:
    return "frame_size" in levels and min(frame_mix(levels["frame_size"]))[0] < smallest_frame_bytes(levels)


def _exceeds_mtu(levels: TreatmentLevels, _: Study) -> bool:
    return "frame_size" in levels and "mtu" in levels and largest_packet_bytes(levels) > int(levels["mtu"])


def _exceeds_vswitch_mtu(levels: TreatmentLevels, study: Study) -> bool:
    max_mtu = study.testbed.vswitch_mtu
    return max_mtu is not None and "frame_size" in levels and largest_packet_bytes(levels) > max_mtu


FRAME_RULES = (
    LevelRule(
        "frame_size",
        _is_too_small,
        "frame_size = {frame_size} is too small for ip_version = {ip_version} and vlan_tags = {vlan_tags}: "
        "the headers and the bench's 18 bytes need {smallest_frame}",
        f"make every frame at least {{smallest_frame}} bytes long, or {EXCLUDE_FIX}",
    ),
    LevelRule(
        "frame_size",
        _exceeds_mtu,
        "frame_size = {frame_size} is too large for mtu = {mtu}: its packet of {packet_bytes} bytes does "
        "not fit",
        f"make mtu at least {{packet_bytes}}, or remove mtu so that it follows frame_size; or {EXCLUDE_FIX}",
    ),
    LevelRule(
        "frame_size",
        _exceeds_vswitch_mtu,
        "frame_size = {frame_size} is too large for testbed.vswitch_mtu: "
        "its packet of {packet_bytes} bytes does not fit",
        "make vswitch_mtu at least {packet_bytes}, or remove it",
    ),
    LevelRule(
        "direction",
        lambda levels, study: (
            WORKLOADS[study.workload].carries_frames
            and str(levels.get("direction", "forward")) not in DIRECTION_SHARES
        ),
        "direction = {direction} is not possible with {workload}: the load is the same in each direction",
        "write forward, reverse or both",
    ),
    LevelRule(
        "frame_load",
        lambda levels, study: (
            WORKLOADS[study.workload].search is SearchUse.OPTIONAL
            and study.search is not None
            and any(factor.name == "frame_load" for factor in study.factors)
        ),
        "frame_load cannot be combined with [search], because the search chooses the loads",
        "remove one of them",
    ),
    LevelRule(
        "frame_load",
        lambda levels, study: (
            WORKLOADS[study.workload].search is SearchUse.OPTIONAL
            and study.search is None
            and throughput_share(levels.get("frame_load", "")) is not None
        ),
        "frame_load = {frame_load} is a share of the throughput, which the workload {workload} does not "
        "search for",
        f'write workload = "{FRAME_LATENCY}" or "{SOAK}", or a rate such as "100 kframe/s"',
    ),
    LevelRule(
        "link_rate",
        lambda levels, study: (
            "frame_size" in levels and has_other_level(levels, "link_rate") and not study.testbed.uplink
        ),
        "link_rate = {link_rate} has no effect with {workload}: frames bypass the VM's queue that shapes",
        f"write uplink = true under [testbed] to shape the uplink instead; or {EXCLUDE_FIX}",
    ),
    LevelRule(
        "role",
        lambda levels, _: "frame_size" in levels and levels.get("role", "router") not in ("router", "bridge"),
        "role = {role} is not possible with {workload}: the guest under test must be between two endpoints "
        "on the host",
        f"write router or bridge, or {EXCLUDE_FIX}",
    ),
    LevelRule(
        "vlan_tags",
        lambda levels, _: (
            int(levels.get("vlan_tags", 0)) > 0 and "router" in (levels.get("vswitch"), levels.get("role"))
        ),
        "vlan_tags = {vlan_tags} is not possible with a router: its interfaces take only untagged packets",
        f"{EXCLUDE_FIX}, or use a bridge",
    ),
)
