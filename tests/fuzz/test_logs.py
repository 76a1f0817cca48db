"""Fuzz the readers of logs, text and JSON: each is imported or reported as unreadable, within bounds.

`tests/importers/test_mutations.py` mutates the logs with a fixed seed. These targets run as long as wanted.
"""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.foreign_files import check_import, corpus_files
from tests.importers.log_mutations import mutate
from tests.importers.test_logs import EXPECTATIONS, find_log

pytestmark = pytest.mark.pure

_LOGS = tuple(find_log(each) for each in EXPECTATIONS)
_TEXT_LOGS = tuple(log for log in _LOGS if not log.read_bytes().lstrip().startswith((b"{", b"<")))
_JSON_LOGS = tuple(log for log in _LOGS if log.read_bytes().lstrip().startswith(b"{"))
_SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20),
    st.sampled_from(("nan", "-1", "1e400", "", "0.00-1.00")),
)  # fmt: skip
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


@pytest.mark.parametrize("path", corpus_files("logs"), ids=lambda path: path.name)
def test_a_kept_log_is_read_to_its_end(path: Path) -> None:
    check_import(path)


@given(st.sampled_from(_TEXT_LOGS), st.sampled_from(_LOGS), st.randoms(use_true_random=False))
def test_any_text_log_is_read_to_its_end(log: Path, other: Path, rng: random.Random) -> None:
    _check(mutate(rng, log.read_bytes(), other.read_bytes()))


@given(st.sampled_from(_JSON_LOGS), st.sampled_from(_LOGS), st.randoms(use_true_random=False))
def test_any_mutated_json_log_is_read_to_its_end(log: Path, other: Path, rng: random.Random) -> None:
    _check(mutate(rng, log.read_bytes(), other.read_bytes()))


def _parse_document(log: Path) -> Any:
    """Return the first document of a log; None if it was cut off."""
    try:
        return json.JSONDecoder().raw_decode(log.read_text().lstrip())[0]
    except ValueError:
        return None


_COMPLETE_DOCUMENTS = tuple(log for log in _JSON_LOGS if _parse_document(log))


@given(st.data())
def test_a_json_log_with_any_values_is_read_to_its_end(data: st.DataObject) -> None:
    document = _parse_document(data.draw(st.sampled_from(_COMPLETE_DOCUMENTS)))
    for _ in range(data.draw(st.integers(1, 3))):
        _replace_one_value(document, data)
    _check(json.dumps(document, indent=data.draw(st.sampled_from((None, 1)))).encode())


def _replace_one_value(document: Any, data: st.DataObject) -> None:
    """Replace or remove a value of a document, at any depth."""
    keys = list(document) if isinstance(document, dict) else list(range(len(document)))
    if not keys:
        return
    key = data.draw(st.sampled_from(keys))
    if isinstance(document[key], dict | list) and document[key] and data.draw(st.integers(0, 3)):
        _replace_one_value(document[key], data)
    elif data.draw(st.booleans()):
        document[key] = data.draw(_VALUES)
    else:
        del document[key]


def _check(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.log"
        path.write_bytes(content)
        check_import(path)
