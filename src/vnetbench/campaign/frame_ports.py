"""Port parameters and backends of frame generators and sinks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vnetbench.lab.endpoint import Endpoint
from vnetbench.lab.knobs import merge_if_equal
from vnetbench.lab.testbed import Testbed
from vnetbench.study.factors.testbed_factors import IP_VERSION
from vnetbench.study.model import Level


def make_frame_port_parameters(
    testbed: Testbed, endpoint: Endpoint, peer: Endpoint, factors: Mapping[str, Level]
) -> dict[str, object]:
    """Return the endpoint's own parameters of trial.prepare; raises BenchError if it has no next hop."""
    ip_version = str(IP_VERSION.read_level(factors))
    return {
        "ip_version": int(ip_version),
        "addresses": {"from": endpoint.address_for(ip_version), "to": peer.address_for(ip_version)},
        "mac_to": testbed.next_hop_mac(endpoint, ip_version),
        "rejected_frames": testbed.rejected_frame_outcome,
    }


def merge_frame_backends(ready: Mapping[str, Mapping[str, Any]]) -> dict[str, object]:
    """Return each endpoint's generator and sink types as stored in `effective`; empty without frames."""
    backends = {name: answer["frames"] for name, answer in ready.items() if "frames" in answer}
    return {
        name: merge_if_equal(
            {endpoint: backend[key] for endpoint, backend in backends.items() if backend.get(key)}
        )
        for name, key in (("generator", "generator"), ("sink", "sink"), ("fallback_reason", "reason"))
        if any(backend.get(key) for backend in backends.values())
    }
