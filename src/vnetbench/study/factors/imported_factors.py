"""Factors and levels that only imported results have: user-defined labels, and unspecified levels."""

from __future__ import annotations

import re
from dataclasses import replace

from vnetbench.study.factors import value_types
from vnetbench.study.factors.factor import Factor
from vnetbench.study.factors.value_types import ValueType
from vnetbench.study.labs import IMPORTED_LAB
from vnetbench.study.model import Level

LABEL_PREFIX = "label_"
LABEL_PATTERN = "^label_[A-Za-z0-9_]{1,40}$"
MAX_LABEL_LEVEL_CHARACTERS = 100
_LABEL_TITLES = {"label_ip_pairs": "IP pairs", "label_receiver_cpus": "Receiver CPUs"}

UNSPECIFIED = "unspecified"
"""Level of a factor that the logs of other runs specify, but the log of this run does not."""


def is_label(factor_name: str) -> bool:
    """Return whether the name is a user-defined label and not one of the bench's factors."""
    return factor_name.startswith(LABEL_PREFIX)


def make_label_factor(name: str) -> Factor | None:
    """Return the factor of a label; None if the name is not a valid label."""
    if re.fullmatch(LABEL_PATTERN, name) is None:
        return None
    title = name.removeprefix(LABEL_PREFIX).replace("_", " ")
    return Factor(
        name,
        replace(value_types.texts(MAX_LABEL_LEVEL_CHARACTERS), is_free_text=True),
        unit="",
        default=None,
        description="A property that distinguishes imported runs and is not a factor of the bench.",
        examples=('"6.7u3"',),
        labs=(IMPORTED_LAB,),
        label=_LABEL_TITLES.get(name) or title[:1].upper() + title[1:],
    )


def allow_unspecified(value_type: ValueType) -> ValueType:
    """Return the value type with `unspecified` as an additional level."""

    def parse(raw: object) -> Level:
        return UNSPECIFIED if isinstance(raw, str) and raw.strip() == UNSPECIFIED else value_type.parse(raw)

    return replace(value_type, parse=parse)
