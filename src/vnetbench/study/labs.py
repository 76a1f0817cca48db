"""Labs of a study, and the backends that implement their testbeds."""

from __future__ import annotations

NETNS, QEMU, HOSTS = "netns", "qemu", "hosts"
LABS = (NETNS, QEMU, HOSTS)

IMPORTED_LAB = "imported"
"""Stands in place of a lab: the trials come from logs of other tools. All factors and labels are possible,
and none has a default."""

IPERF3_BACKEND = "iperf3"
"""Backend of the lab `hosts` if one endpoint only has an iperf3 server. All other backends are labs."""
