"""CPU lists of a study: the kernel's list format, and the CPU sets of the VMs of a pair."""

from __future__ import annotations

import re
from collections.abc import Iterable

from vnetbench.study.problems import WrongValue

MAX_CPU_NUMBER = 4095
"""Highest CPU number of a list; the kernel's own limit (NR_CPUS) is at most 8192."""

MAX_CPUS_PER_VM = 256

_CPU_RANGE_PATTERN = re.compile(r"\s*([0-9]{1,5})\s*(?:-\s*([0-9]{1,5})\s*)?")
_CPUS_PER_VM_PATTERN = re.compile(r"\s*([0-9]{1,5})\s+each\s*")

CPU_LIST_PATTERN = r"[0-9]+(\s*-\s*[0-9]+)?(\s*,\s*[0-9]+(\s*-\s*[0-9]+)?)*"


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """Return the CPUs of a list such as "0-1,3", in ascending order.

    The format is that of the kernel's CPU lists (Documentation/admin-guide/cputopology.rst).

    Raises:
        WrongValue: if the text is not a CPU list.
    """
    cpus: set[int] = set()
    for part in text.split(","):
        match = _CPU_RANGE_PATTERN.fullmatch(part)
        if match is None:
            raise WrongValue(
                f'"{text.strip()}" is not a list of CPUs', fix='write CPUs as "0", "0-1" or "0-1,3"'
            )
        first, last = int(match[1]), int(match[2] or match[1])
        if max(first, last) > MAX_CPU_NUMBER:
            raise WrongValue(
                f"CPU {max(first, last)} does not exist", fix=f"use CPUs from 0 to {MAX_CPU_NUMBER}"
            )
        if last < first:
            raise WrongValue(f'the range "{part.strip()}" goes down', fix=f'write "{last}-{first}"')
        cpus.update(range(first, last + 1))
    return tuple(sorted(cpus))


def format_cpu_list(cpus: Iterable[int]) -> str:
    """Return the shortest list of the CPUs: (0, 1, 3) becomes "0-1,3"."""
    ranges: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in ranges)


def canonicalize_cpu_list(text: str) -> str:
    """Return a CPU list in its canonical form; raises WrongValue."""
    return format_cpu_list(parse_cpu_list(text))


def canonicalize_vm_cpu_sets(text: str) -> str:
    """Return the canonical form of a level of `cpus`: "N each", "LIST" or "LIST/LIST".

    Raises:
        WrongValue: if the text has none of these forms.
    """
    each = _CPUS_PER_VM_PATTERN.fullmatch(text)
    if each:
        if not 1 <= int(each[1]) <= MAX_CPUS_PER_VM:
            raise WrongValue(
                f'"{text.strip()}" is not a valid number of CPUs',
                fix=f"give each VM from 1 to {MAX_CPUS_PER_VM} CPUs",
            )
        return f"{int(each[1])} each"
    return canonicalize_endpoint_cpu_lists(text)


def canonicalize_endpoint_cpu_lists(text: str) -> str:
    """Return the canonical form of "LIST" (both endpoints) or "LIST/LIST"; raises WrongValue."""
    lists = text.split("/")
    if len(lists) > 2:
        raise WrongValue(
            f'"{text.strip()}" names more than two VMs',
            fix='write the CPUs of the two VMs of a pair as "0/1"',
        )
    return "/".join(canonicalize_cpu_list(each) for each in lists)
