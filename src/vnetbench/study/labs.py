"""The labs that a study may name, and which factors each can set."""

from __future__ import annotations

NETNS, HOSTS = "netns", "hosts"
LABS = (NETNS, HOSTS)

OF_HOSTS = ("streams", "direction", "message_size", "socket_buffer", "congestion_control", "cpus")
"""The factors of the lab `hosts`: what a trial sets on this side. Nothing of a host itself is touched."""


def has_factor(lab: str, factor: str) -> bool:
    """Whether the lab can set the factor."""
    return lab == NETNS or factor in OF_HOSTS
