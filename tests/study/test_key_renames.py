"""Rename keys in the text of a study."""

from __future__ import annotations

import tomllib

import pytest

from vnetbench.study.file.document import KeyPath
from vnetbench.study.file.key_renames import rename_study_keys

pytestmark = pytest.mark.pure

NAMES: dict[KeyPath, str] = {("precision", "most"): "max", ("search", "least"): "min"}


@pytest.mark.parametrize(
    ("text", "renamed"),
    [
        ("[precision]\nmost = 3 # most of them\n", "[precision]\nmax = 3 # most of them\n"),
        ("[precision]\r\n  most=3\r\n", "[precision]\r\n  max=3\r\n"),
        ("precision.most = 3\n", "precision.max = 3\n"),
        ("precision . 'most' = 3\n", "precision . max = 3\n"),
        ('precision = {x = "most", most = 3}\n', 'precision = {x = "most", max = 3}\n'),
        ('[precision]\n"most" = 3\n', "[precision]\nmax = 3\n"),
        ('title = "ü"\n[search]\nleast = "ü"\n', 'title = "ü"\n[search]\nmin = "ü"\n'),
        ("\ufeff[precision]\nmost = 3\n", "\ufeff[precision]\nmax = 3\n"),
    ],
)
def test_a_key_is_renamed_wherever_toml_allows_it(text: str, renamed: str) -> None:
    assert rename_study_keys(text, NAMES) == renamed


@pytest.mark.parametrize(
    "text",
    [
        "most = 3\n",
        "[factors]\nmost = [3]\nleast = 1\n",
        "[search]\nmost = 3\n",
        "[[precision]]\nmost = 3\n",
        'question = """\n[precision]\nmost = 3\n"""\n',
        "[precision]\nmax = 3 # most = 3\n",
        "not = = toml [[\n",
    ],
)
def test_other_keys_values_and_comments_stay(text: str) -> None:
    assert rename_study_keys(text, NAMES) == text


def test_several_keys_are_renamed_without_a_change_of_other_values() -> None:
    text = 'title = "most"\n[search]\nleast = 1\nmost = 2\n[precision]\nmost = 3\n'
    assert tomllib.loads(rename_study_keys(text, NAMES)) == {
        "title": "most",
        "search": {"min": 1, "most": 2},
        "precision": {"max": 3},
    }
