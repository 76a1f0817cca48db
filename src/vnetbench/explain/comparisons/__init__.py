"""Findings between treatments, and between the trials of one: pure functions of a campaign's summary."""
