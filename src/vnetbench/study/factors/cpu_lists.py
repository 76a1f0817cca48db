"""How a study names CPUs: lists as the kernel writes them, and where the VMs of a pair run."""

from __future__ import annotations

import re
from collections.abc import Iterable

from vnetbench.study.problems import WrongValue

MAX_CPU = 4095
"""Highest CPU number that a list may name; the kernel's own limit (NR_CPUS) is 8192 at most."""

MAX_CPUS_PER_VM = 256

_SPAN = re.compile(r"\s*([0-9]{1,5})\s*(?:-\s*([0-9]{1,5})\s*)?")
_EACH = re.compile(r"\s*([0-9]{1,5})\s+each\s*")

CPU_LIST_PATTERN = r"[0-9]+(\s*-\s*[0-9]+)?(\s*,\s*[0-9]+(\s*-\s*[0-9]+)?)*"


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """The CPUs of a list such as "0-1,3", ascending; raises WrongValue.

    The form is that of the kernel's cpulists (Documentation/admin-guide/cputopology.rst).
    """
    cpus: set[int] = set()
    for part in text.split(","):
        span = _SPAN.fullmatch(part)
        if span is None:
            raise WrongValue(
                f'"{text.strip()}" is not a list of CPUs', fix='write CPUs as "0", "0-1" or "0-1,3"'
            )
        first, last = int(span[1]), int(span[2] or span[1])
        if max(first, last) > MAX_CPU:
            raise WrongValue(f"CPU {max(first, last)} does not exist", fix=f"CPUs go from 0 to {MAX_CPU}")
        if last < first:
            raise WrongValue(f'"{part.strip()}" counts down', fix=f'write "{last}-{first}"')
        cpus.update(range(first, last + 1))
    return tuple(sorted(cpus))


def format_cpu_list(cpus: Iterable[int]) -> str:
    """The shortest list of the CPUs: (0, 1, 3) is "0-1,3"."""
    spans: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if spans and cpu == spans[-1][1] + 1:
            spans[-1][1] = cpu
        else:
            spans.append([cpu, cpu])
    return ",".join(f"{a}-{b}" if b > a else f"{a}" for a, b in spans)


def canonical_cpu_list(text: str) -> str:
    """A CPU list in its one canonical spelling; raises WrongValue."""
    return format_cpu_list(parse_cpu_list(text))


def canonical_vm_cpus(text: str) -> str:
    """The canonical spelling of a level of `cpus` that is no word: "N each", "LIST" or "LIST/LIST"."""
    each = _EACH.fullmatch(text)
    if each:
        if not 1 <= int(each[1]) <= MAX_CPUS_PER_VM:
            raise WrongValue(
                f'"{text.strip()}" is no number of CPUs', fix=f"give each VM 1 to {MAX_CPUS_PER_VM} CPUs"
            )
        return f"{int(each[1])} each"
    return canonical_endpoint_cpus(text)


def canonical_endpoint_cpus(text: str) -> str:
    """The canonical spelling of "LIST" or "LIST/LIST"; raises WrongValue."""
    sides = text.split("/")
    if len(sides) > 2:
        raise WrongValue(
            f'"{text.strip()}" names more than two sides', fix='write the two VMs of a pair as "0/1"'
        )
    return "/".join(canonical_cpu_list(side) for side in sides)
