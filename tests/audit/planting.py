"""Faults planted into clean texts."""

from __future__ import annotations

TextFault = tuple[str, str, str, tuple[tuple[str, str], ...]]
"""The rule that must find the fault, the form, the clean sample, and what is replaced."""


def plant(sample: str, replacements: tuple[tuple[str, str], ...]) -> str:
    """Return the sample with a fault; each text that is replaced must be in it."""
    for old, new in replacements:
        assert old in sample, old
        sample = sample.replace(old, new, 1)
    return sample
