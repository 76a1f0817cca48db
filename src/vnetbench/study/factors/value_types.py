"""The kinds of value that a study has: how each is read, spelled, described and put into the JSON Schema."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from vnetbench import quantity
from vnetbench.errors import BenchError
from vnetbench.study.factors import cpu_lists
from vnetbench.study.factors.directions import (
    DIRECTION_MIX_PATTERN,
    DIRECTION_SHARES,
    canonical_direction_mix,
)
from vnetbench.study.model import Level
from vnetbench.study.problems import WrongValue, format_raw_value, suggest

Json = dict[str, object]


@dataclass(frozen=True)
class ValueType:
    """One kind of value."""

    expected_form: str
    """What is expected, in words that end the sentence "write …"."""
    parse: Callable[[object], Level]
    """The canonical value of a raw TOML value; raises a BenchError with `what` and `fix`."""
    format: Callable[[Level], str]
    """The canonical value as a person writes it; `parse(spell(x)) == x`."""
    pattern: str
    """Regular expression (the dialect that JSON Schema and Python share) of its form as a string."""
    other_schemas: tuple[Json, ...] = ()
    """JSON Schemas of its forms that are no string."""
    keywords: tuple[str, ...] = ()
    """Words that it takes beside or in place of quantities, for completion."""
    is_integer: bool = False
    """Whole numbers: "1..16" means every one of them."""
    has_commas: bool = False
    """A value may have commas in it (CPU lists)."""
    is_free_text: bool = False
    """A value is any text: nothing in it is an expression."""


def integers(low: int, high: int, *words: str, unit: str = "") -> ValueType:
    """A whole number from `low` to `high`, bare or in quotes, or one of the words.

    `unit` may stand behind a number in quotes.
    """
    expects = f"a whole number from {low} to {high}" + "".join(f' or "{word}"' for word in words)

    def parse(raw: object) -> Level:
        if isinstance(raw, str) and raw.strip() in words:
            return raw.strip()
        if isinstance(raw, str):
            number = re.fullmatch(
                rf"\s*([+-]?[0-9]{{1,18}})\s*(?:{unit})?\s*" if unit else r"\s*([+-]?[0-9]{1,18})\s*", raw
            )
            if number is None:
                raise WrongValue(f"{format_raw_value(raw)} is not a whole number", fix=f"write {expects}")
            raw = int(number[1])
        if isinstance(raw, bool) or not isinstance(raw, int):
            raise WrongValue(f"{format_raw_value(raw)} is not a whole number", fix=f"write {expects}")
        if not low <= raw <= high:
            raise WrongValue(f"{format_raw_value(raw)} is out of range", fix=f"write {expects}")
        return raw

    pattern = "|".join((*words, rf"[+]?[0-9]+(\s*{unit})?" if unit else r"[+]?[0-9]+"))
    number: Json = {"type": "integer", "minimum": low, "maximum": high}
    return ValueType(
        expects, parse, str, f"({pattern})" if words else pattern, (number,), words, is_integer=True
    )


def _quantity_type(
    noun: str,
    read: Callable[[str], float | int],
    spell: Callable[[float | int], str],
    low: float,
    high: float,
    units: str,
    words: tuple[str, ...],
) -> ValueType:
    or_words = "".join(f' or "{word}"' for word in words)
    expects = f'a {noun} from "{spell(low)}" to "{spell(high)}"{or_words}'

    def parse(raw: object) -> Level:
        if isinstance(raw, str):
            text = raw.strip()
            if text in words:
                return text
            if text[:1].isalpha() and words:
                fix = suggest(text, words, otherwise=f"write {expects}")
                raise WrongValue(f"{format_raw_value(raw)} is not a {noun}", fix=fix)
            value = read(raw)
            if not low <= value <= high:
                raise WrongValue(f"{format_raw_value(raw)} is out of range", fix=f"write {expects}")
            return value
        if isinstance(raw, int | float) and not isinstance(raw, bool):
            read(
                f"{format_raw_value(raw)}"
            )  # A bare number has no unit: this raises the sentence that lists them.
        raise WrongValue(f"{format_raw_value(raw)} is not a {noun}", fix=f"write {expects}, in quotes")

    def spell_level(level: Level) -> str:
        return level if isinstance(level, str) else spell(level)

    number = r"[+]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?"
    term = rf"{number}\s*({units})"
    pattern = "|".join((*words, rf"{term}(\s*{term})*"))
    return ValueType(expects, parse, spell_level, f"({pattern})", keywords=words)


def durations(low_s: float, high_s: float, *words: str) -> ValueType:
    """A duration in seconds, or one of the words."""
    units = "µs|μs|us|ms|s|min|h"
    return _quantity_type(
        "duration", quantity.parse_duration, quantity.format_exact_duration, low_s, high_s, units, words
    )


def sizes(low: int, high: int, *words: str) -> ValueType:
    """A size in whole bytes, or one of the words."""

    def spell(size: float | int) -> str:
        return quantity.format_exact_bytes(int(size))

    return _quantity_type("size", quantity.parse_bytes, spell, low, high, "B|kB|KB|KiB|MB|MiB|GB|GiB", words)


def bit_rates(low_bps: int, high_bps: int, *words: str) -> ValueType:
    """A rate in whole bits/s, or one of the words."""
    units = "bit/s|kbit/s|Mbit/s|Gbit/s|bps|kbps|Mbps|Gbps"
    return _quantity_type(
        "rate", quantity.parse_rate, quantity.format_exact_rate, low_bps, high_bps, units, words
    )


def frequencies(low_per_s: float, high_per_s: float, *words: str) -> ValueType:
    """So many a second, or one of the words."""
    units = "/s|k/s|M/s"
    parse, spell = quantity.parse_frequency, quantity.format_exact_frequency
    return _quantity_type("frequency", parse, spell, low_per_s, high_per_s, units, words)


def frame_rates(low_fps: float, high_fps: float, *words: str) -> ValueType:
    """So many frames a second, or one of the words."""
    units = "frame/s|kframe/s|Mframe/s|frames/s|kframes/s|Mframes/s"
    parse, spell = quantity.parse_frame_rate, quantity.format_exact_frame_rate
    return _quantity_type("frame rate", parse, spell, low_fps, high_fps, units, words)


def frame_loads(low_fps: float, high_fps: float, *words: str) -> ValueType:
    """A frame rate, a share of the throughput (a level as "90 %"), or one of the words."""
    rate, share = frame_rates(low_fps, high_fps, *words), percentages(0.01, 2)

    def parse(raw: object) -> Level:
        is_share = isinstance(raw, str) and raw.strip().endswith("%")
        return share.format(share.parse(raw)) if is_share else rate.parse(raw)

    expects = f'{rate.expected_form}, or a share of the throughput such as "90 %"'
    return ValueType(expects, parse, rate.format, f"({rate.pattern}|{share.pattern})", keywords=words)


def loss_goals(most: int) -> ValueType:
    """Accepted shares of lost frames, ascending: a text, or a list; a level as "0 %, 0.5 %"."""
    share = percentages(0, 0.5)
    expects = f'up to {most} ascending shares from "0 %" to "50 %", such as ["0 %", "0.5 %"]'

    def parse(raw: object) -> Level:
        parts = raw if isinstance(raw, list) else raw.split(",") if isinstance(raw, str) else [raw]
        goals = [float(share.parse(part)) for part in parts]
        if not 1 <= len(goals) <= most or goals != sorted(set(goals)):
            raise WrongValue("these are not a few goals in ascending order", fix=f"write {expects}")
        return ", ".join(map(share.format, goals))

    many: Json = {"type": "array", "items": {"type": "string", "pattern": rf"^\s*({share.pattern})\s*$"}}
    many |= {"minItems": 1, "maxItems": most}
    return ValueType(
        expects, parse, str, rf"{share.pattern}(\s*,\s*{share.pattern})*", (many,), has_commas=True
    )


def percentages(low: float, high: float, *words: str) -> ValueType:
    """A share of 1, written as a percentage, or one of the words."""
    return _quantity_type("share", quantity.parse_share, quantity.format_exact_share, low, high, "%", words)


def keywords(*known: str) -> ValueType:
    """One of a few words."""
    listed = ", ".join(f'"{word}"' for word in known)
    expects = f"one of {listed}" if len(known) > 1 else listed

    def parse(raw: object) -> str:
        if isinstance(raw, str) and raw.strip() in known:
            return raw.strip()
        near = raw.strip() if isinstance(raw, str) else ""
        raise WrongValue(
            f"{format_raw_value(raw)} is not known here",
            fix=suggest(near, known, otherwise=f"write {expects}"),
        )

    return ValueType(expects, parse, str, f"({'|'.join(known)})", keywords=known)


def texts(longest: int) -> ValueType:
    """A text for people, at most `longest` characters; line breaks and runs of spaces become one space."""
    expects = f"a text of 1 to {longest} characters"

    def parse(raw: object) -> str:
        if not isinstance(raw, str):
            raise WrongValue(f"{format_raw_value(raw)} is not a text", fix=f"write {expects}, in quotes")
        text = " ".join(raw.split())
        if not text or not text.isprintable() or len(text) > longest:
            what = (
                f"{len(text)} characters are too many"
                if len(text) > longest
                else f"{format_raw_value(raw)} has characters that cannot be printed"
                if text
                else "the text is empty"
            )
            raise WrongValue(what, fix=f"write {expects}")
        return text

    return ValueType(expects, parse, str, r"\S[\s\S]*")


def on_off() -> ValueType:
    """ "on" or "off"; TOML's true and false mean the same."""
    on_off = keywords("on", "off")

    def parse(raw: object) -> Level:
        if isinstance(raw, bool):
            return "on" if raw else "off"
        if isinstance(raw, str) and raw.strip().lower() in ("true", "yes", "false", "no"):
            meant = "on" if raw.strip().lower() in ("true", "yes") else "off"
            raise WrongValue(
                f"{format_raw_value(raw)} is not known here",
                fix=f'did you mean "{meant}"? write "on" or "off"',
            )
        return on_off.parse(raw)

    return ValueType(
        '"on" or "off"', parse, str, on_off.pattern, ({"type": "boolean"},), keywords=on_off.keywords
    )


def booleans() -> ValueType:
    """true or false, bare."""

    def parse(raw: object) -> bool:
        if not isinstance(raw, bool):
            raise WrongValue(
                f"{format_raw_value(raw)} is neither true nor false",
                fix="write true or false, without quotes",
            )
        return raw

    def spell(level: Level) -> str:
        return "true" if level else "false"

    return ValueType("true or false", parse, spell, "", ({"type": "boolean"},))


def versions(*known: int) -> ValueType:
    """One of a few version numbers, bare or in quotes; a level is its digits: nothing to count with."""
    digits = keywords(*map(str, known))
    expects = " or ".join(digits.keywords)

    def parse(raw: object) -> Level:
        if isinstance(raw, bool) or not isinstance(raw, int | str) or str(raw).strip() not in digits.keywords:
            raise WrongValue(f"{format_raw_value(raw)} is not known here", fix=f"write {expects}")
        return str(raw).strip()

    return ValueType(
        expects, parse, str, digits.pattern, ({"type": "integer", "enum": list(known)},), digits.keywords
    )


def congestion_controls() -> ValueType:
    """The name of a congestion control of the kernel (TCP_CA_NAME_MAX: 15 characters and a NUL)."""
    expects = 'the kernel\'s name of a congestion control, such as "cubic", "bbr" or "reno"'

    def parse(raw: object) -> str:
        if isinstance(raw, str) and re.fullmatch(r"[a-z][a-z0-9_-]{0,14}", raw.strip()):
            return raw.strip()
        raise WrongValue(f"{format_raw_value(raw)} names no congestion control", fix=f"write {expects}")

    known = ("cubic", "reno", "bbr", "dctcp")
    return ValueType(expects, parse, str, "[a-z][a-z0-9_-]{0,14}", keywords=known)


def _cpu_type(
    known: tuple[str, ...], pattern: str, expects: str, canonical: Callable[[str], str]
) -> ValueType:
    def parse(raw: object) -> str:
        if isinstance(raw, int) and not isinstance(raw, bool) and 0 <= raw <= cpu_lists.MAX_CPU:
            return str(raw)
        if not isinstance(raw, str):
            raise WrongValue(f"{format_raw_value(raw)} names no CPUs", fix=f"write {expects}")
        text = raw.strip()
        if text in known:
            return text
        if len(text) > 1000 or not re.match(r"[0-9]", text):
            fix = suggest(text, known, otherwise=f"write {expects}")
            raise WrongValue(f"{format_raw_value(raw)} names no CPUs", fix=fix)
        try:
            return canonical(text)
        except BenchError as error:
            raise WrongValue(
                error.what, fix=error.fix if "CPUs go" in str(error.fix) else f"write {expects}"
            ) from error

    bare: Json = {"type": "integer", "minimum": 0, "maximum": cpu_lists.MAX_CPU}
    return ValueType(
        expects, parse, str, f"({'|'.join((*known, pattern))})", (bare,), keywords=known, has_commas=True
    )


def vm_cpus() -> ValueType:
    """Which CPUs the VMs may use."""
    expects = '"any", "1 each" (so many CPUs of its own for each VM), CPUs "0-1", or both VMs of a pair "0/1"'
    pattern = rf"[0-9]+\s+each|{cpu_lists.CPU_LIST_PATTERN}(\s*/\s*{cpu_lists.CPU_LIST_PATTERN})?"
    return _cpu_type(("any",), pattern, expects, cpu_lists.canonical_vm_cpus)


def directions() -> ValueType:
    """Which way streams go, or how many each way at once."""
    known = keywords(*DIRECTION_SHARES)
    expects = f'{known.expected_form}, or a mix such as "3/1"'

    def parse(raw: object) -> str:
        if isinstance(raw, str) and "/" in raw:
            return canonical_direction_mix(raw)
        try:
            return str(known.parse(raw))
        except WrongValue as error:
            near = "did you mean" in str(error.fix)
            raise WrongValue(error.what, fix=error.fix if near else f"write {expects}") from error

    return ValueType(
        expects, parse, str, f"{known.pattern[:-1]}|{DIRECTION_MIX_PATTERN})", keywords=known.keywords
    )


def thread_cpus() -> ValueType:
    """Which CPU each thread of the load runs on."""
    expects = '"any", "spread", CPUs "0-1" that the threads take in turn, or both VMs of a pair "0-1/2-3"'
    pattern = rf"{cpu_lists.CPU_LIST_PATTERN}(\s*/\s*{cpu_lists.CPU_LIST_PATTERN})?"
    return _cpu_type(("any", "spread"), pattern, expects, cpu_lists.canonical_endpoint_cpus)


def emulator_cpus() -> ValueType:
    """Which of the host's CPUs an emulator's own threads may use."""
    expects = '"any", "own", "apart" or CPUs such as "0-1"'
    return _cpu_type(
        ("any", "own", "apart"), cpu_lists.CPU_LIST_PATTERN, expects, cpu_lists.canonical_cpu_list
    )


def device_cpus() -> ValueType:
    """Which CPUs do the packet processing of a device under test."""
    expects = '"auto", "apart", "any" or CPUs such as "2-3"'
    return _cpu_type(
        ("auto", "apart", "any"), cpu_lists.CPU_LIST_PATTERN, expects, cpu_lists.canonical_cpu_list
    )


def interrupt_cpus() -> ValueType:
    """Which of an endpoint's CPUs take its adapter's interrupts."""
    expects = '"spread" or CPUs such as "0-1"'
    return _cpu_type(("spread",), cpu_lists.CPU_LIST_PATTERN, expects, cpu_lists.canonical_cpu_list)


def receive_cpus() -> ValueType:
    """Which CPUs do the receive processing."""
    known = ("off", "own", "apart", "spread")
    expects = '"off", "own", "apart", "spread" or CPUs such as "0-1"'
    return _cpu_type(known, cpu_lists.CPU_LIST_PATTERN, expects, cpu_lists.canonical_cpu_list)
