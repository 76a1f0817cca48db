"""What frames cannot be, or be asked for together, on any machine."""

from __future__ import annotations

from vnetbench.study.factors.directions import DIRECTION_SHARES
from vnetbench.study.factors.frame_sizes import (
    frame_mix,
    largest_packet_bytes,
    smallest_frame_bytes,
    throughput_share,
)
from vnetbench.study.model import Study
from vnetbench.study.rules.rule import EXCLUDE_FIX, LevelRule, TreatmentLevels
from vnetbench.study.workloads import FRAME_LATENCY, FRAME_WORKLOADS, FRAMES, SOAK


def frame_words(levels: TreatmentLevels) -> dict[str, str]:
    """What the rules' sentences say of a treatment's frames."""
    if "frame_size" not in levels:
        return {}
    return {
        "least_frame": str(smallest_frame_bytes(levels)),
        "packet_bytes": str(largest_packet_bytes(levels)),
    }


def _is_too_small(levels: TreatmentLevels, _: Study) -> bool:
    return "frame_size" in levels and min(frame_mix(levels["frame_size"]))[0] < smallest_frame_bytes(levels)


def _exceeds_mtu(levels: TreatmentLevels, _: Study) -> bool:
    return "frame_size" in levels and "mtu" in levels and largest_packet_bytes(levels) > int(levels["mtu"])


def _exceeds_vswitch_mtu(levels: TreatmentLevels, study: Study) -> bool:
    most = study.testbed.vswitch_mtu
    return most is not None and "frame_size" in levels and largest_packet_bytes(levels) > most


def _is_share(levels: TreatmentLevels) -> bool:
    return throughput_share(levels.get("frame_load", "")) is not None


FRAME_RULES = (
    LevelRule(
        "frame_size",
        _is_too_small,
        "frame_size = {frame_size} with ip_version = {ip_version} and vlan_tags = {vlan_tags}: headers and "
        "the 18 bytes that tell one frame from another take {least_frame}",
        f"make every frame {{least_frame}} bytes or longer, or {EXCLUDE_FIX}",
    ),
    LevelRule(
        "frame_size",
        _exceeds_mtu,
        "frame_size = {frame_size} with mtu = {mtu}: a packet of {packet_bytes} bytes does not fit",
        f"make mtu {{packet_bytes}} or larger, or take it away: it then follows frame_size; or {EXCLUDE_FIX}",
    ),
    LevelRule(
        "frame_size",
        _exceeds_vswitch_mtu,
        "frame_size = {frame_size}: a packet of {packet_bytes} bytes does not fit testbed.vswitch_mtu",
        "make vswitch_mtu {packet_bytes} or larger, or take it away",
    ),
    LevelRule(
        "direction",
        lambda levels, study: (
            study.workload in FRAME_WORKLOADS
            and str(levels.get("direction", "forward")) not in DIRECTION_SHARES
        ),
        "direction = {direction} with {workload}: loads are of each direction, the same both ways",
        "take forward, reverse or both",
    ),
    LevelRule(
        "frame_load",
        lambda levels, study: (
            study.workload == FRAMES
            and study.search is not None
            and any(factor.name == "frame_load" for factor in study.factors)
        ),
        "frame_load with [search]: the search chooses the loads",
        "take one of them away",
    ),
    LevelRule(
        "frame_load",
        lambda levels, study: study.workload == FRAMES and study.search is None and _is_share(levels),
        "frame_load = {frame_load} with frames: no throughput is searched that it could be a share of",
        f'write workload = "{FRAME_LATENCY}" or "{SOAK}", or a rate such as "100 kframe/s"',
    ),
    LevelRule(
        "link_rate",
        lambda levels, study: (
            "frame_size" in levels and levels.get("link_rate", "none") != "none" and not study.testbed.uplink
        ),
        "link_rate = {link_rate} with {workload}: it shapes by a queue of the VM's that frames do not pass",
        f"write uplink = true under [testbed], which is shaped then; or {EXCLUDE_FIX}",
    ),
    LevelRule(
        "role",
        lambda levels, _: "frame_size" in levels and levels.get("role", "router") not in ("router", "bridge"),
        "role = {role} with {workload}: both ends are the tester's, with what is tested between them",
        f"take router or bridge, or {EXCLUDE_FIX}",
    ),
    LevelRule(
        "vlan_tags",
        lambda levels, _: (
            int(levels.get("vlan_tags", 0)) > 0 and "router" in (levels.get("vswitch"), levels.get("role"))
        ),
        "vlan_tags = {vlan_tags} with a router: it takes the packets of its own interfaces, without tags",
        f"{EXCLUDE_FIX}, or take a bridge",
    ),
)
