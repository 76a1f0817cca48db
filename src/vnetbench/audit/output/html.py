"""The audit as one HTML page without any other file."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined

from vnetbench.audit.finding import AuditResult
from vnetbench.audit.output.groups import (
    closing_notes,
    group_findings,
    limit_text,
    object_label,
    relevance_text,
)


def audit_html(result: AuditResult) -> str:
    """Return the audit as an HTML page."""
    environment = Environment(
        loader=PackageLoader("vnetbench.audit.output", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("audit.html.j2").render(
        result=result,
        groups=group_findings(result),
        notes=closing_notes(result),
        object_label=object_label,
        limit_text=limit_text,
        relevance_text=relevance_text,
    )
