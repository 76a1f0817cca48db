"""What only imported results have for factors: labels that a person gives, and levels that no log tells."""

from __future__ import annotations

import re
from dataclasses import replace

from vnetbench.study.factors import value_types
from vnetbench.study.factors.factor import Factor
from vnetbench.study.factors.value_types import ValueType
from vnetbench.study.labs import IMPORTED
from vnetbench.study.model import Level

LABEL_PREFIX = "label_"
LABEL_PATTERN = "^label_[A-Za-z0-9_]{1,40}$"
MAX_LABEL_CHARACTERS = 100

UNSPECIFIED = "unspecified"
"""A level of any factor: these runs' logs tell another one, and this run's does not."""


def is_label(name: str) -> bool:
    """Whether this names a label and no factor of ours."""
    return name.startswith(LABEL_PREFIX)


def label_factor(name: str) -> Factor | None:
    """The factor that a label is; None where the name is no label's."""
    if re.fullmatch(LABEL_PATTERN, name) is None:
        return None
    text = replace(value_types.texts(MAX_LABEL_CHARACTERS), is_free_text=True)
    return Factor(
        name,
        text,
        "",
        None,
        "Whatever tells runs apart that no factor of the bench names.",
        ('"6.7u3"',),
        labs=(IMPORTED,),
    )


def allow_unspecified(kind: ValueType) -> ValueType:
    """The same kind of level, or the word for none."""

    def parse(raw: object) -> Level:
        return UNSPECIFIED if isinstance(raw, str) and raw.strip() == UNSPECIFIED else kind.parse(raw)

    return replace(kind, parse=parse)
