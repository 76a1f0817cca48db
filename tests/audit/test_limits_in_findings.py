"""A finding says why a limit that no source states has its value; other findings say nothing about limits."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.audit.linux_samples import VMWARE_GUEST
from tests.audit.planting import plant
from tests.audit.reading import audit_sample
from vnetbench.audit.finding import AuditResult
from vnetbench.audit.output.groups import OWN_LIMIT
from vnetbench.audit.output.html import audit_html
from vnetbench.audit.output.json_form import audit_fields, audit_json
from vnetbench.audit.output.markdown import audit_markdown
from vnetbench.audit.output.sarif import audit_sarif
from vnetbench.audit.output.table import audit_table

pytestmark = pytest.mark.pure

FORMS: dict[str, Callable[[AuditResult], str]] = {
    "table": lambda result: " ".join(audit_table(result, 100).split()),
    "markdown": audit_markdown,
    "html": audit_html,
    "sarif": audit_sarif,
}
DAMAGED = audit_sample("linux", plant(VMWARE_GUEST, (("rx_crc_errors:0", "rx_crc_errors:900"),)))
HALF_DUPLEX = audit_sample("linux", plant(VMWARE_GUEST, (("duplex:full", "duplex:half"),)))


@pytest.mark.parametrize("form", FORMS)
def test_a_finding_says_why_its_own_limit_has_this_value(form: str) -> None:
    text = FORMS[form](DAMAGED)
    assert OWN_LIMIT in text and "1 damaged frame per" in text


@pytest.mark.parametrize("form", FORMS)
def test_a_finding_without_a_limit_says_nothing_about_one(form: str) -> None:
    text = FORMS[form](HALF_DUPLEX)
    assert "half duplex" in text and OWN_LIMIT not in text


def test_the_json_has_the_reason_or_null() -> None:
    assert "1 damaged frame per" in audit_fields(DAMAGED)["findings"][0]["threshold_reason"]
    assert '"threshold_reason": null' in audit_json(HALF_DUPLEX)
