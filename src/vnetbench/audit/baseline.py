"""Earlier audits: findings that are already known."""

from __future__ import annotations

from pathlib import Path

from vnetbench.audit.files.json_path import get_list, get_text
from vnetbench.audit.files.text import parse_json, read_text
from vnetbench.audit.finding import FindingKey
from vnetbench.errors import BenchError


def read_baseline(path: Path) -> frozenset[FindingKey]:
    """Return the findings of an earlier audit, from its JSON.

    Raises:
        BenchError: The file is no JSON of an audit.
    """
    document = parse_json(read_text(path), str(path))
    if not isinstance(document, dict) or not isinstance(document.get("findings"), list):
        raise BenchError(
            "this is no JSON of an audit", where=str(path), fix="write one with vnetbench audit --json > FILE"
        )
    return frozenset(
        (get_text(each, "rule"), get_text(each, "target"), get_text(each, "object"))
        for each in get_list(document, "findings")
    )
