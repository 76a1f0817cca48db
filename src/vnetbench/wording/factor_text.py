"""Texts for factors, levels and stop reasons in reports and findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vnetbench.results.records import INTERRUPTED, RUNNING
from vnetbench.study.factors.guest_factors import ADAPTERS
from vnetbench.study.factors.imported_factors import UNSPECIFIED
from vnetbench.study.factors.registry import FACTORS, find_factor_or_label
from vnetbench.study.labs import IMPORTED_LAB
from vnetbench.study.model import FactorLevels, Level

CHANGE_FACTOR = "changed"
"""Stands for all factors of a one-at-a-time study (`report/one_at_a_time.py`)."""

TREATMENT_FACTOR = "treatment"
"""Stands for all factors of imported runs that differ in many of them (`report/one_at_a_time.py`)."""

_STOP_REASON_TEXTS = {
    "precision": "precise enough",
    "trial limit": "not precise enough after the maximum number of trials",
    "time limit": "not precise enough at the time limit",
    "not needed": "not measured, because the others gave the answer",
    INTERRUPTED: "interrupted",
    RUNNING: "still running",
    "refused": "refused",
    "failed": "failed",
    IMPORTED_LAB: "the logs have no more trials",
}


def capitalize_sentence(sentence: str) -> str:
    """Return the sentence with a capital, unless its first word is a hardware name such as `vmxnet3`."""
    word = sentence.partition(" ")[0].rstrip(":,")
    is_word = word.replace("-", "").isalpha() and word.islower() and word not in ADAPTERS
    return sentence[:1].upper() + sentence[1:] if is_word else sentence


def factor_title(name: str) -> str:
    """Return the title of a factor: `MTU`, `Message size`."""
    factor = find_factor_or_label(name)
    return factor.title if factor else name.replace("_", " ").capitalize()


def factor_noun(name: str) -> str:
    """Return the name of a factor inside a sentence: `message size`, `MTU`, `vCPUs`."""
    label = factor_title(name)
    return label if any(map(str.isupper, label.split()[0][1:])) else label[:1].lower() + label[1:]


def level_text(name: str, level: Level) -> str:
    """Return one level for people: 8192 of `socket_buffer` is `8 KiB`; unknown factors keep the level."""
    return FACTORS[name].value_type.format(level) if name in FACTORS else str(level)


def level_phrase(name: str, level: Level) -> str:
    """Return one level as it reads without a heading: `4 streams`, `MTU 9000`, `TSO off`."""
    if level == UNSPECIFIED:
        return f"{factor_noun(name)} {UNSPECIFIED}"
    if name in (CHANGE_FACTOR, TREATMENT_FACTOR):
        return str(level)
    factor = find_factor_or_label(name)
    return factor.format_phrase(level) if factor else f"{factor_title(name)} {level}"


def treatment_phrase(factors: Mapping[str, Level], names: Sequence[str]) -> str:
    """Return a treatment by its specified levels of some factors: `4 streams, forward, MTU 9000`."""
    levels = [(name, factors[name]) for name in names if name in factors]
    phrases = [level_phrase(name, level) for name, level in levels if level != UNSPECIFIED]
    return ", ".join(phrases) or ("nothing specified" if levels else "the only treatment")


def factor_names(factors: Sequence[FactorLevels]) -> tuple[str, ...]:
    """Return the names of the factors in their order."""
    return tuple(factor.name for factor in factors)


def stop_reason_text(stop_reason: str) -> str:
    """Return why the bench stopped repeating a treatment, as a phrase."""
    return _STOP_REASON_TEXTS.get(stop_reason, stop_reason)
