"""How an endpoint's port is made ready for frames: where they go, and by which ways they are made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vnetbench.lab.testbed import Bed
from vnetbench.lab.endpoint import Endpoint
from vnetbench.lab.knobs import where_alike
from vnetbench.study.model import Level


def way_of_frames(bed: Bed, at: Endpoint, to: Endpoint, factors: Mapping[str, Level]) -> dict[str, object]:
    """What of trial.prepare is the endpoint's own; raises BenchError where its next hop cannot be found."""
    ip_version = str(factors.get("ip_version", "4"))
    return {
        "ip_version": int(ip_version),
        "addresses": {"from": at.address_of(ip_version), "to": to.address_of(ip_version)},
        "mac_to": bed.next_hop(at, ip_version),
        "refused": bed.refused_frames,
    }


def ways_of_frames(ready: Mapping[str, Mapping[str, Any]]) -> dict[str, object]:
    """By which ways each endpoint makes and counts its frames, as a trial keeps it; empty without frames."""
    told = {name: answer["frames"] for name, answer in ready.items() if "frames" in answer}
    return {
        name: where_alike({endpoint: ways[key] for endpoint, ways in told.items() if ways.get(key)})
        for name, key in (("generator", "generator"), ("sink", "sink"), ("frames_why", "why"))
        if any(ways.get(key) for ways in told.values())
    }
