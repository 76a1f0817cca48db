"""Statements about teams of uplinks with ESXi's policies, whose links no check reads yet."""

from __future__ import annotations

from vnetbench.statements.selection import TreatmentSelection
from vnetbench.statements.statement import INCONCLUSIVE, StatementPart

_MISSING_CHECK = "a check of the links that a team used, which vnetbench does not have yet"


def check_ip_hash_one_uplink(selection: TreatmentSelection) -> tuple[StatementPart, ...]:
    """Check S17: traffic of one source and one destination uses one uplink with IP hash."""
    return _inconclusive_part("all traffic of one source to one destination uses one uplink")


def check_port_id_one_uplink(selection: TreatmentSelection) -> tuple[StatementPart, ...]:
    """Check S18: traffic of one vNIC uses one uplink with originating port ID."""
    return _inconclusive_part("all traffic of one vNIC uses one uplink")


def check_ip_hash_all_uplinks(selection: TreatmentSelection) -> tuple[StatementPart, ...]:
    """Check S19: traffic of one source to many destinations uses all uplinks with IP hash."""
    return _inconclusive_part("traffic of one source to many destinations uses all uplinks")


def _inconclusive_part(claim: str) -> tuple[StatementPart, ...]:
    return (StatementPart(claim, INCONCLUSIVE, (), _MISSING_CHECK),)
