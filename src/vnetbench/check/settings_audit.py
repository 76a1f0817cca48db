"""The audit of both ends' settings: the one place where a check asks for it."""

from __future__ import annotations

from dataclasses import dataclass

from vnetbench.check.ends import CheckedPath


@dataclass(frozen=True)
class AuditFinding:
    """A setting of one end that a rule finds wrong."""

    rule: str
    end: str
    """Name of the end."""
    setting: str
    """The object that the rule judged, such as an interface."""
    found: str
    expected: str
    severity: str
    why: str
    fix: str
    source: str
    matters_here: str
    """`measured`, `provable` or `not measurable here`, with the effect or the command."""


@dataclass(frozen=True)
class SettingsAudit:
    """The findings of both ends."""

    is_audited: bool
    """False if no audit ran: then an empty list says nothing about the settings."""
    findings: tuple[AuditFinding, ...] = ()


def audit_ends(path: CheckedPath) -> SettingsAudit:
    """Return the findings about the settings of both ends. `vnetbench audit` is not connected yet."""
    return SettingsAudit(is_audited=False)
