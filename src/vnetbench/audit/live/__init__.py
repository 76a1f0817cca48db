"""Readers of the APIs of hypervisors. Their sessions only read."""
