"""Readers of the state of a team: what Linux, Open vSwitch, teamd and ESXi print about it."""
