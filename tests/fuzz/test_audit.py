"""Files for the audit that anyone may have written: each is read, or refused with our error."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.audit.export_samples import make_export, make_windows_guest
from tests.audit.linux_samples import HOST, VMWARE_GUEST
from tests.audit.vm_samples import DOMAIN, QM_CONFIG, VMX
from tests.fuzz.foreign_files import apply_edits, edits
from vnetbench.audit.files.text import decode_text
from vnetbench.audit.judge import judge
from vnetbench.audit.output.html import audit_html
from vnetbench.audit.output.json_form import audit_json
from vnetbench.audit.output.table import audit_table
from vnetbench.audit.rules import load_rules
from vnetbench.audit.targets import read_content
from vnetbench.errors import BenchError

pytestmark = pytest.mark.pure

TEXTS = [text.encode() for text in (HOST, VMWARE_GUEST, VMX, DOMAIN, QM_CONFIG)]
EXPORTS = [make_export(), make_windows_guest()]
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    st.just([]),
    st.just({}),
)


def check_content(content: bytes) -> None:
    """Audit a file as the command does. Fails on any error but ours."""
    try:
        inventory = read_content(decode_text(content, "file"), "file", "file.vmx")
    except BenchError as error:
        assert error.what and error.fix
        return
    result = judge([inventory], list(load_rules().values()))
    for text in (audit_table(result, 80), audit_json(result), audit_html(result)):
        assert "\x1b[31m" not in text.replace("\x1b[31m\x1b[1m", "") and "\0" not in text


@given(st.sampled_from(TEXTS), edits())
def test_edited_texts_are_read_or_refused(content: bytes, changes: Any) -> None:
    check_content(apply_edits(content, changes))


@given(st.sampled_from(EXPORTS), st.lists(st.tuples(st.integers(0, 2**20), VALUES), min_size=1, max_size=4))
def test_exports_with_other_values_are_read_or_refused(document: Any, changes: list[tuple[int, Any]]) -> None:
    document = json.loads(json.dumps(document))
    for place, value in changes:
        parents = list(list_containers(document))
        parent = parents[place % len(parents)]
        keys = list(parent) if isinstance(parent, dict) else list(range(len(parent)))
        if keys:
            parent[keys[place % len(keys)]] = value
    check_content(json.dumps(document).encode())


def list_containers(value: Any) -> list[Any]:
    """Return all objects and lists of a document."""
    if not isinstance(value, dict | list):
        return []
    inner = value.values() if isinstance(value, dict) else value
    return [value, *(found for each in inner for found in list_containers(each))]
