"""Check that the load of a trial uses the adapter of a VM that the study changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vnetbench.agents.client import AgentClient
from vnetbench.lab.endpoint import Endpoint
from vnetbench.lab.errors import TreatmentRefused


def check_loaded_adapters(
    macs: Mapping[str, str], endpoints: Sequence[Endpoint], agents: Mapping[str, AgentClient]
) -> dict[str, str]:
    """Return the drivers of the changed adapters in their guests, by host.

    Args:
        macs: MAC addresses of the adapters that change, in lower case, by host.
        endpoints: The endpoints of the load.
        agents: The agents by host.

    Raises:
        TreatmentRefused: an endpoint's interface is another adapter.
    """
    drivers = {}
    for endpoint in endpoints:
        if mac := macs.get(endpoint.name):
            interfaces = agents[endpoint.name].call("agent.facts")["interfaces"]
            interface = next(each for each in interfaces if each["name"] == endpoint.interface)
            if (interface["mac"] or "").lower() != mac:
                raise TreatmentRefused(
                    f"the load uses {endpoint.interface} ({interface['mac']}), but the study changes the"
                    f" adapter {mac}",
                    where=endpoint.name,
                    fix="name the adapter that carries the load in adapter_mac, or its interface in"
                    " interface",
                )
            drivers[endpoint.name] = str(interface.get("driver"))
    return drivers
