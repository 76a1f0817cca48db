"""Kinds of failures, and how a results file stores them with a failed trial (docs/results-file.md)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

FAILURE_KIND_KEY = "failure_kind"
"""Key in `effective` of a failed trial: the kind of its failure."""
PATH_PROBE_RESULT_KEY = "path_probe"
"""Key in `effective` of a failed trial, next to the kind: which packets passed after the failure."""
TESTBED_REBUILD_REASON_KEY = "replaced_testbed"
"""Key in `effective` of a finished trial: why the bench built its testbed anew just before it."""

AGENT_GONE = "agent_gone"
COUNT_MISMATCH = "count_mismatch"
MTU_BLACK_HOLE = "mtu_black_hole"
NO_CPU_TIME = "no_cpu_time"
NO_DATA = "no_data"
PATH_BLOCKED = "path_blocked"
SYSTEM_REFUSED = "system_refused"
TESTBED_CHANGED = "testbed_changed"
TIMEOUT = "timeout"
WRONG_LISTENER = "wrong_listener"

PATH_REFUSAL_KINDS = (MTU_BLACK_HOLE, PATH_BLOCKED)
"""Kinds of refusals that the path causes, not a setting."""

CPU_SET_FACTORS = ("cpus", "thread_cpus", "vcpu_pin")
"""Factors that say which CPUs the load may use."""

KINDS_PATH_MAY_HAVE_CAUSED = (NO_DATA, TIMEOUT, "connection", "stream", SYSTEM_REFUSED)
"""Kinds of failures that the path may have caused. A fault that the probe shows replaces their cause."""
KINDS_THAT_TRIGGER_PATH_PROBE = (*KINDS_PATH_MAY_HAVE_CAUSED, "interface")
"""Kinds of failures after which the bench probes the path."""

KIND_BY_AGENT_ERROR_CODE: Mapping[int, str] = {
    0: AGENT_GONE,
    -32001: SYSTEM_REFUSED,
    -32004: TIMEOUT,
    -32005: WRONG_LISTENER,
}
"""Kinds of the agent's errors that have no `kind` of their own (docs/protocol.md, "Errors")."""


def refusal_failure_kind(kind: str, refused_factor: str, study_factors: Collection[str]) -> str:
    """Return the failure kind of a refusal whose reason is not the study; empty if it is the study.

    Args:
        kind: Kind of the refusal.
        refused_factor: The factor whose level did not take effect; empty for other reasons.
        study_factors: The factors that the study sets. Where it sets no CPUs, any CPU may be used unless
            another program forbids that.
    """
    if kind in (SYSTEM_REFUSED, *PATH_REFUSAL_KINDS):
        return kind
    is_default_cpu_set = refused_factor in CPU_SET_FACTORS and refused_factor not in study_factors
    return TESTBED_CHANGED if is_default_cpu_set else ""


def failure_fields(kind: str, evidence: Mapping[str, object]) -> dict[str, object]:
    """Return what `effective` of a failed trial stores; empty if the kind is unknown."""
    return {FAILURE_KIND_KEY: kind, **evidence} if kind else {}
