"""The labs that a study may name, and the kinds of testbed that they make."""

from __future__ import annotations

NETNS, QEMU, HOSTS = "netns", "qemu", "hosts"
LABS = (NETNS, QEMU, HOSTS)

IMPORTED = "imported"
"""In the place of a lab: the trials were read from logs of other tools, and nothing is known but what they
tell. It has every factor, and labels; none has a default."""

IPERF3 = "iperf3"
"""A kind of testbed, of the lab `hosts`: one end only has an iperf3 server. Every other kind is its lab's."""

IPERF3_FACTORS = ("streams", "direction", "message_size", "socket_buffer", "congestion_control", "cpus")
"""The factors that it has: what a trial sets on this side. Nothing of a host itself is touched."""
