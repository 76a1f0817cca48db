"""Shapes the links of a team to their speeds, and reads the speeds back."""

from __future__ import annotations

from typing import Any

from vnetbench.lab.errors import TreatmentRefused
from vnetbench.lab.links.shaping import read_rate_limit_bps
from vnetbench.lab.netns.network_settings import shape_and_prove
from vnetbench.lab.netns.topology import NetDevice, TeamLinks
from vnetbench.study.teams import TeamSpec


def shape_team_links(links: TeamLinks, spec: TeamSpec, shaper: str) -> None:
    """Shape both ends of each link to its speed, if the study gives speeds.

    Raises:
        TreatmentRefused: if another rate was read back.
        BenchError: if the kernel refuses.
    """
    if spec.listed_speeds_bps:
        for ends in (links.near, links.far):
            for device, rate_bps in zip(ends, spec.speeds_bps, strict=True):
                shape_and_prove(device, rate_bps, shaper, key="speed")


def prove_link_speeds(links: TeamLinks, spec: TeamSpec) -> None:
    """Raise TreatmentRefused unless both ends of each link have the speed that the study gives."""
    if not spec.listed_speeds_bps:
        return
    for ends in (links.near, links.far):
        for device, speed_bps in zip(ends, spec.speeds_bps, strict=True):
            found = _read_speed_bps(device)
            # The kernel keeps whole bytes per second.
            if speed_bps is not None and (found is None or abs(found - speed_bps) > 8):
                raise TreatmentRefused(
                    f"the link's speed is {found} bit/s instead of {speed_bps}",
                    where=device.display_name,
                    fix="run the study again; if it fails again, run vnetbench doctor to see what this "
                    "machine allows",
                )


def describe_links(links: TeamLinks) -> list[dict[str, Any]]:
    """Return the links of a team with their speeds as read back, for the results file."""
    return [
        {
            "name": f"link{number}",
            "near": near.interface,
            "far": far.interface,
            "speed_bps": _read_speed_bps(near),
        }
        for number, (near, far) in enumerate(zip(links.near, links.far, strict=True))
    ]


def _read_speed_bps(device: NetDevice) -> int | None:
    rate_bps = read_rate_limit_bps(device)
    return None if rate_bps is None else round(rate_bps)
