"""What a test may expect of the machine: CPUs that its process may use, and adapters with few queues."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vnetbench.study.factors.cpu_lists import parse_cpu_list

USABLE_CPUS = tuple(sorted(os.sched_getaffinity(0)))
"""A container or a control group may exclude any CPU, also CPU 0."""

FIRST_CPU = USABLE_CPUS[0]

needs_two_cpus = pytest.mark.skipif(len(USABLE_CPUS) < 2, reason="needs two CPUs")

_POSSIBLE_CPUS = parse_cpu_list(Path("/sys/devices/system/cpu/possible").read_text())

needs_adapters_with_few_queues = pytest.mark.skipif(
    len(_POSSIBLE_CPUS) >= 64, reason="the kernel gives a veth a queue for each possible CPU, here 64 or more"
)
"""For tests that request 64 queues, the largest level, and expect a refusal."""
