"""Level rules of frames: sizes, loads and directions that contradict each other."""

from __future__ import annotations

from vnetbench.study.factors.directions import STREAM_MULTIPLIERS_BY_DIRECTION
from vnetbench.study.factors.frame_factors import (
    FRAME_LOAD,
    FRAME_SIZE,
    VLAN_TAGS,
    compute_largest_packet_bytes,
    compute_smallest_frame_bytes,
)
from vnetbench.study.factors.frame_sizes import (
    parse_frame_mix,
    parse_throughput_share,
)
from vnetbench.study.factors.guest_factors import GUEST_ROLE
from vnetbench.study.factors.load_factors import DIRECTION
from vnetbench.study.factors.testbed_factors import LINK_RATE, MTU, VSWITCH
from vnetbench.study.model import Study
from vnetbench.study.rules.rule import EXCLUDE_FIX, LevelRule, TreatmentLevels
from vnetbench.study.workloads import WORKLOADS, SearchUse

_THROUGHPUT_SHARE_WORKLOADS = " or ".join(
    f'"{name}"' for name, each in WORKLOADS.items() if each.can_hold_throughput_share
)


def format_frame_sizes(levels: TreatmentLevels) -> dict[str, str]:
    """Return the frame sizes of a treatment that the rules' messages name."""
    if not FRAME_SIZE.is_present_in(levels):
        return {}
    return {
        "smallest_frame": str(compute_smallest_frame_bytes(levels)),
        "packet_bytes": str(compute_largest_packet_bytes(levels)),
    }


def _has_too_small_frames(levels: TreatmentLevels, _: Study) -> bool:
    return FRAME_SIZE.is_present_in(levels) and min(parse_frame_mix(levels[FRAME_SIZE.name]))[
        0
    ] < compute_smallest_frame_bytes(levels)


def _has_frames_above_mtu(levels: TreatmentLevels, _: Study) -> bool:
    return (
        FRAME_SIZE.is_present_in(levels)
        and MTU.is_present_in(levels)
        and compute_largest_packet_bytes(levels) > int(levels[MTU.name])
    )


def _has_frames_above_vswitch_mtu(levels: TreatmentLevels, study: Study) -> bool:
    max_mtu = study.testbed.vswitch_mtu
    return (
        max_mtu is not None
        and FRAME_SIZE.is_present_in(levels)
        and compute_largest_packet_bytes(levels) > max_mtu
    )


FRAME_RULES = (
    LevelRule(
        FRAME_SIZE,
        _has_too_small_frames,
        "frame_size = {frame_size} is too small for ip_version = {ip_version} and vlan_tags = {vlan_tags}: "
        "the headers and the bench's 18 bytes need {smallest_frame}",
        f"make every frame at least {{smallest_frame}} bytes long, or {EXCLUDE_FIX}",
    ),
    LevelRule(
        FRAME_SIZE,
        _has_frames_above_mtu,
        "frame_size = {frame_size} is too large for mtu = {mtu}: its packet of {packet_bytes} bytes does "
        "not fit",
        f"make mtu at least {{packet_bytes}}, remove mtu so that the MTU fits the frames, or {EXCLUDE_FIX}",
    ),
    LevelRule(
        FRAME_SIZE,
        _has_frames_above_vswitch_mtu,
        "frame_size = {frame_size} is too large for testbed.vswitch_mtu: "
        "its packet of {packet_bytes} bytes does not fit",
        "make vswitch_mtu at least {packet_bytes}, or remove vswitch_mtu",
    ),
    LevelRule(
        DIRECTION,
        lambda levels, study: (
            WORKLOADS[study.workload].carries_frames
            and str(DIRECTION.read_level(levels)) not in STREAM_MULTIPLIERS_BY_DIRECTION
        ),
        "direction = {direction} is not possible with {workload}: the load is the same in each direction",
        "write forward, reverse or both",
    ),
    LevelRule(
        FRAME_LOAD,
        lambda levels, study: (
            WORKLOADS[study.workload].search_use is SearchUse.OPTIONAL
            and study.search is not None
            and any(factor.name == FRAME_LOAD.name for factor in study.factors)
        ),
        "frame_load cannot be combined with [search], because the search chooses the loads",
        "remove frame_load or [search]",
    ),
    LevelRule(
        FRAME_LOAD,
        lambda levels, study: (
            WORKLOADS[study.workload].search_use is SearchUse.OPTIONAL
            and study.search is None
            and parse_throughput_share(levels.get(FRAME_LOAD.name, "")) is not None
        ),
        "frame_load = {frame_load} is a share of the throughput, which the workload {workload} does not "
        "search for",
        f'write workload = {_THROUGHPUT_SHARE_WORKLOADS}, or a rate such as "100 kframe/s"',
    ),
    LevelRule(
        LINK_RATE,
        lambda levels, study: (
            FRAME_SIZE.is_present_in(levels)
            and LINK_RATE.has_non_default_level(levels)
            and not study.testbed.uplink
        ),
        "link_rate = {link_rate} has no effect with {workload}, because frames bypass the shaper at the "
        "VM's interface",
        f"write uplink = true under [testbed] to shape the uplink instead, or {EXCLUDE_FIX}",
    ),
    LevelRule(
        GUEST_ROLE,
        lambda levels, _: (
            FRAME_SIZE.is_present_in(levels)
            and levels.get(GUEST_ROLE.name, "router") not in ("router", "bridge")
        ),
        "role = {role} is not possible with {workload}: the guest under test must be between two endpoints "
        "on the host",
        f"write router or bridge, or {EXCLUDE_FIX}",
    ),
    LevelRule(
        VLAN_TAGS,
        lambda levels, _: (
            int(VLAN_TAGS.read_level(levels)) > 0
            and "router" in (levels.get(VSWITCH.name), levels.get(GUEST_ROLE.name))
        ),
        "vlan_tags = {vlan_tags} is not possible with a router: its interfaces take only untagged packets",
        f"{EXCLUDE_FIX}, or use a bridge",
    ),
)
