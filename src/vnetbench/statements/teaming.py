"""Statements on teams of uplinks. No lab builds one yet, and no trial counts what each uplink carried."""

from __future__ import annotations

from vnetbench.statements.selection import TreatmentSelection
from vnetbench.statements.statement import CANNOT_TELL, StatementPart

_MISSING = (
    "a lab that builds teams of uplinks, with the policy as a factor and the bytes of each uplink as metrics"
)


def one_uplink_by_address(found: TreatmentSelection) -> tuple[StatementPart, ...]:
    """S17: one source and one destination stay on one uplink under IP hash."""
    return _untold("all traffic of one source to one destination takes one uplink")


def one_uplink_by_port(found: TreatmentSelection) -> tuple[StatementPart, ...]:
    """S18: one vNIC stays on one uplink under originating port ID."""
    return _untold("all traffic of one vNIC takes one uplink")


def spread_by_address(found: TreatmentSelection) -> tuple[StatementPart, ...]:
    """S19: one source to many destinations uses every uplink under IP hash."""
    return _untold("traffic of one source to many destinations takes every uplink")


def _untold(what: str) -> tuple[StatementPart, ...]:
    return (StatementPart(what, CANNOT_TELL, (), _MISSING),)
