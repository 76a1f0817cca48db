"""The audit of both ends of a checked path, and which findings the check shows the effect of."""

from __future__ import annotations

from collections.abc import Iterable

from vnetbench.audit.inventory import Inventory
from vnetbench.audit.settings import SettingsAudit, judge_settings
from vnetbench.audit.targets import LOCAL, read_target
from vnetbench.check.ends import CheckedPath, End
from vnetbench.check.limits import PathLimit
from vnetbench.errors import BenchError


def audit_ends(path: CheckedPath) -> SettingsAudit:
    """Read and judge the settings of both ends, before the load. An end that cannot be read is named."""
    inventories: list[Inventory] = []
    unread: dict[str, str] = {}
    for target, end in {_target_of(end): end for end in (path.first, path.second)}.items():
        if target is None:
            unread[end.name] = f"The settings of {end.name} were not audited: it is an iperf3 server."
            continue
        for each in read_target(target):
            if isinstance(each, BenchError):
                unread[end.name] = f"The settings of {end.name} were not audited: {each.what}."
            else:
                inventories.append(each)
    return judge_settings(inventories, unread)


def evidence_of_limits(limits: Iterable[PathLimit]) -> dict[str, str]:
    """Return the causes that a check names, with their evidence."""
    return {limit.cause: f"this check names it: {limit.evidence}" for limit in limits}


def _target_of(end: End) -> str | None:
    """Return what `vnetbench audit` calls an end. The namespaces of the lab have this machine's settings."""
    if end.access == "iperf3":
        return None
    return end.destination if end.access == "ssh" else LOCAL
