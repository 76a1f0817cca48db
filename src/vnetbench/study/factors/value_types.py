"""Value types of a study: how each is parsed, written, described and turned into JSON Schema."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from vnetbench import quantity
from vnetbench.errors import BenchError
from vnetbench.study.factors.cpu_lists import (
    CPU_LIST_PATTERN,
    MAX_CPU_NUMBER,
    canonicalize_cpu_list,
    canonicalize_endpoint_cpu_lists,
    canonicalize_vm_cpu_sets,
)
from vnetbench.study.factors.directions import (
    DIRECTION_MIX_PATTERN,
    STREAM_MULTIPLIERS_BY_DIRECTION,
    canonicalize_direction_mix,
)
from vnetbench.study.model import Level
from vnetbench.study.problems import WrongValue, format_raw_value, suggest_fix

Json = dict[str, object]


@dataclass(frozen=True)
class ValueType:
    """One type of value in a study file."""

    expected_form: str
    """The expected values, as they end the sentence "write …"."""
    parse: Callable[[object], Level]
    """Returns the canonical value of a raw TOML value; raises a BenchError with `what` and `fix`."""
    format: Callable[[Level], str]
    """Returns the canonical value as a study writes it; `parse(format(x)) == x`."""
    pattern: str
    """Regular expression of the string form, in the dialect that JSON Schema and Python share."""
    non_string_schemas: tuple[Json, ...] = ()
    """JSON Schemas of the forms that are not strings."""
    keywords: tuple[str, ...] = ()
    """Keywords that it takes in addition to quantities or instead of them."""
    is_integer: bool = False
    """Whole numbers: "1..16" means each of them."""
    has_commas: bool = False
    """A value may contain commas (CPU lists)."""
    is_free_text: bool = False
    """A value is any text, never an expression of levels."""
    is_on_off: bool = False
    """The values are `on` and `off`."""


def integers(low: int, high: int, *extra_keywords: str, unit: str = "") -> ValueType:
    """Make the type of whole numbers in a range, or one of the keywords.

    Args:
        low: Smallest number.
        high: Largest number.
        extra_keywords: Keywords that are valid in addition to numbers.
        unit: Unit that may follow a number in quotes.
    """
    expected = f"a whole number from {low} to {high}" + "".join(f' or "{word}"' for word in extra_keywords)
    digits = r"[+-]?[0-9]{1,18}"
    quoted_number = rf"\s*({digits})\s*(?:{unit})?\s*" if unit else rf"\s*({digits})\s*"

    def parse(raw: object) -> Level:
        if isinstance(raw, str):
            if raw.strip() in extra_keywords:
                return raw.strip()
            number = re.fullmatch(quoted_number, raw)
            if number is None:
                raise _make_wrong_value(raw, "is not a whole number", expected)
            raw = int(number[1])
        if isinstance(raw, bool) or not isinstance(raw, int):
            raise _make_wrong_value(raw, "is not a whole number", expected)
        if not low <= raw <= high:
            raise _make_wrong_value(raw, "is out of range", expected)
        return raw

    pattern = "|".join((*extra_keywords, rf"[+]?[0-9]+(\s*{unit})?" if unit else r"[+]?[0-9]+"))
    number: Json = {"type": "integer", "minimum": low, "maximum": high}
    return ValueType(
        expected,
        parse,
        str,
        f"({pattern})" if extra_keywords else pattern,
        (number,),
        extra_keywords,
        is_integer=True,
    )


def _make_wrong_value(raw: object, what: str, expected: str) -> WrongValue:
    return WrongValue(f"{format_raw_value(raw)} {what}", fix=f"write {expected}")


def _make_quantity_type(
    noun: str,
    parse_text: Callable[[str], float | int],
    format_number: Callable[[float | int], str],
    low: float,
    high: float,
    units: str,
    extra_keywords: tuple[str, ...],
) -> ValueType:
    or_words = "".join(f' or "{word}"' for word in extra_keywords)
    expected = f'a {noun} from "{format_number(low)}" to "{format_number(high)}"{or_words}'

    def parse(raw: object) -> Level:
        if isinstance(raw, str):
            text = raw.strip()
            if text in extra_keywords:
                return text
            if text[:1].isalpha() and extra_keywords:
                fix = suggest_fix(text, extra_keywords, otherwise=f"write {expected}")
                raise WrongValue(f"{format_raw_value(raw)} is not a {noun}", fix=fix)
            value = parse_text(raw)
            if not low <= value <= high:
                raise _make_wrong_value(raw, "is out of range", expected)
            return value
        if isinstance(raw, int | float) and not isinstance(raw, bool):
            # A bare number has no unit: parsing it raises the error that lists the units.
            parse_text(format_raw_value(raw))
        raise _make_wrong_value(raw, f"is not a {noun}", f"{expected}, in quotes")

    def format_level(level: Level) -> str:
        return level if isinstance(level, str) else format_number(level)

    number = r"[+]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?"
    term = rf"{number}\s*({units})"
    pattern = "|".join((*extra_keywords, rf"{term}(\s*{term})*"))
    return ValueType(expected, parse, format_level, f"({pattern})", keywords=extra_keywords)


def durations(low_s: float, high_s: float, *extra_keywords: str) -> ValueType:
    """Make the type of durations in seconds, or one of the keywords."""
    parse, format_number = quantity.parse_duration, quantity.format_exact_duration
    return _make_quantity_type(
        "duration", parse, format_number, low_s, high_s, "µs|μs|us|ms|s|min|h", extra_keywords
    )


def sizes(low_bytes: int, high_bytes: int, *extra_keywords: str) -> ValueType:
    """Make the type of sizes in whole bytes, or one of the keywords."""

    def format_number(size: float | int) -> str:
        return quantity.format_exact_bytes(int(size))

    units = "B|kB|KB|KiB|MB|MiB|GB|GiB"
    return _make_quantity_type(
        "size", quantity.parse_bytes, format_number, low_bytes, high_bytes, units, extra_keywords
    )


def bit_rates(low_bps: int, high_bps: int, *extra_keywords: str) -> ValueType:
    """Make the type of rates in whole bits per second, or one of the keywords."""
    units = "bit/s|kbit/s|Mbit/s|Gbit/s|bps|kbps|Mbps|Gbps"
    parse, format_number = quantity.parse_bit_rate, quantity.format_exact_bit_rate
    return _make_quantity_type("rate", parse, format_number, low_bps, high_bps, units, extra_keywords)


def frequencies(low_per_s: float, high_per_s: float, *extra_keywords: str) -> ValueType:
    """Make the type of numbers per second, or one of the keywords."""
    parse, format_number = quantity.parse_count_per_s, quantity.format_exact_frequency
    return _make_quantity_type(
        "frequency", parse, format_number, low_per_s, high_per_s, "/s|k/s|M/s", extra_keywords
    )


def frame_rates(low_fps: float, high_fps: float, *extra_keywords: str) -> ValueType:
    """Make the type of frames per second, or one of the keywords."""
    units = "frame/s|kframe/s|Mframe/s|frames/s|kframes/s|Mframes/s"
    parse, format_number = quantity.parse_frame_rate, quantity.format_exact_frame_rate
    return _make_quantity_type("frame rate", parse, format_number, low_fps, high_fps, units, extra_keywords)


def percentages(low_share: float, high_share: float, *extra_keywords: str) -> ValueType:
    """Make the type of shares of 1, written in percent, or one of the keywords."""
    parse, format_number = quantity.parse_share, quantity.format_exact_share
    return _make_quantity_type("share", parse, format_number, low_share, high_share, "%", extra_keywords)


def frame_rates_or_throughput_shares(low_fps: float, high_fps: float, *extra_keywords: str) -> ValueType:
    """Make the type of a frame rate, a share of the throughput (level "90 %"), or one of the keywords."""
    rate, share = frame_rates(low_fps, high_fps, *extra_keywords), percentages(0.01, 2)

    def parse(raw: object) -> Level:
        is_share = isinstance(raw, str) and raw.strip().endswith("%")
        return share.format(share.parse(raw)) if is_share else rate.parse(raw)

    expected = f'{rate.expected_form}, or a share of the throughput such as "90 %"'
    return ValueType(
        expected, parse, rate.format, f"({rate.pattern}|{share.pattern})", keywords=extra_keywords
    )


def keywords(*known: str) -> ValueType:
    """Make the type of a few keywords."""
    listed = ", ".join(f'"{word}"' for word in known)
    expected = f"one of {listed}" if len(known) > 1 else listed

    def parse(raw: object) -> str:
        text = raw.strip() if isinstance(raw, str) else ""
        if text in known:
            return text
        fix = suggest_fix(text, known, otherwise=f"write {expected}")
        raise WrongValue(f"{format_raw_value(raw)} is not a valid value", fix=fix)

    return ValueType(expected, parse, str, f"({'|'.join(known)})", keywords=known)


def texts(max_characters: int) -> ValueType:
    """Make the type of texts for people; line breaks and repeated spaces become one space."""
    expected = f"a text of 1 to {max_characters} characters"

    def parse(raw: object) -> str:
        if not isinstance(raw, str):
            raise _make_wrong_value(raw, "is not a text", f"{expected}, in quotes")
        text = " ".join(raw.split())
        if not text:
            raise WrongValue("the text is empty", fix=f"write {expected}")
        if len(text) > max_characters:
            raise WrongValue(f"{len(text)} characters are too many", fix=f"write {expected}")
        if not text.isprintable():
            raise _make_wrong_value(raw, "has characters that cannot be printed", expected)
        return text

    return ValueType(expected, parse, str, r"\S[\s\S]*")


def on_off() -> ValueType:
    """Make the type of "on" and "off"; TOML's true and false mean the same."""
    keyword_type = keywords("on", "off")

    def parse(raw: object) -> Level:
        if isinstance(raw, bool):
            return "on" if raw else "off"
        if isinstance(raw, str) and raw.strip().lower() in ("true", "yes", "false", "no"):
            meant = "on" if raw.strip().lower() in ("true", "yes") else "off"
            raise WrongValue(
                f"{format_raw_value(raw)} is not a valid value",
                fix=f'did you mean "{meant}"? write "on" or "off"',
            )
        return keyword_type.parse(raw)

    boolean: Json = {"type": "boolean"}
    return ValueType(
        '"on" or "off"', parse, str, keyword_type.pattern, (boolean,), keyword_type.keywords, is_on_off=True
    )


def booleans() -> ValueType:
    """Make the type of true and false without quotes."""

    def parse(raw: object) -> bool:
        if not isinstance(raw, bool):
            raise _make_wrong_value(raw, "is neither true nor false", "true or false, without quotes")
        return raw

    def format_level(level: Level) -> str:
        return "true" if level else "false"

    return ValueType("true or false", parse, format_level, "", ({"type": "boolean"},))


def versions(*known: int) -> ValueType:
    """Make the type of version numbers, bare or in quotes; a level is a keyword, not a number."""
    digits = keywords(*map(str, known))
    expected = " or ".join(digits.keywords)

    def parse(raw: object) -> Level:
        if isinstance(raw, bool) or not isinstance(raw, int | str) or str(raw).strip() not in digits.keywords:
            raise _make_wrong_value(raw, "is not a valid value", expected)
        return str(raw).strip()

    number: Json = {"type": "integer", "enum": list(known)}
    return ValueType(expected, parse, str, digits.pattern, (number,), digits.keywords)


def congestion_controls() -> ValueType:
    """Make the type of the kernel's congestion controls (TCP_CA_NAME_MAX: 15 characters and a NUL)."""
    expected = 'the kernel\'s name of a congestion control, such as "cubic", "bbr" or "reno"'

    def parse(raw: object) -> str:
        if isinstance(raw, str) and re.fullmatch(r"[a-z][a-z0-9_-]{0,14}", raw.strip()):
            return raw.strip()
        raise _make_wrong_value(raw, "is not the name of a congestion control", expected)

    common = ("cubic", "reno", "bbr", "dctcp")
    return ValueType(expected, parse, str, "[a-z][a-z0-9_-]{0,14}", keywords=common)


def directions() -> ValueType:
    """Make the type of stream directions: a keyword, or a mix such as "3/1"."""
    keyword_type = keywords(*STREAM_MULTIPLIERS_BY_DIRECTION)
    expected = f'{keyword_type.expected_form}, or a mix such as "3/1"'

    def parse(raw: object) -> str:
        if isinstance(raw, str) and "/" in raw:
            return canonicalize_direction_mix(raw)
        try:
            return str(keyword_type.parse(raw))
        except WrongValue as error:
            has_suggestion = "did you mean" in str(error.fix)
            raise WrongValue(error.what, fix=error.fix if has_suggestion else f"write {expected}") from error

    pattern = f"{keyword_type.pattern[:-1]}|{DIRECTION_MIX_PATTERN})"
    return ValueType(expected, parse, str, pattern, keywords=keyword_type.keywords)


def _make_cpu_type(
    known: tuple[str, ...],
    expected: str,
    pattern: str = CPU_LIST_PATTERN,
    canonical: Callable[[str], str] = canonicalize_cpu_list,
) -> ValueType:
    """Make the type of a CPU set: a keyword, or a text that `canonical` turns into its canonical form."""

    def parse(raw: object) -> str:
        if isinstance(raw, int) and not isinstance(raw, bool) and 0 <= raw <= MAX_CPU_NUMBER:
            return str(raw)
        if not isinstance(raw, str):
            raise _make_wrong_value(raw, "is not a valid CPU set", expected)
        text = raw.strip()
        if text in known:
            return text
        if len(text) > 1000 or not re.match(r"[0-9]", text):
            fix = suggest_fix(text, known, otherwise=f"write {expected}")
            raise WrongValue(f"{format_raw_value(raw)} is not a valid CPU set", fix=fix)
        try:
            return canonical(text)
        except BenchError as error:
            names_range = "use CPUs from" in str(error.fix)
            raise WrongValue(error.what, fix=error.fix if names_range else f"write {expected}") from error

    bare: Json = {"type": "integer", "minimum": 0, "maximum": MAX_CPU_NUMBER}
    full_pattern = f"({'|'.join((*known, pattern))})"
    return ValueType(expected, parse, str, full_pattern, (bare,), keywords=known, has_commas=True)


_ENDPOINT_CPUS_PATTERN = rf"{CPU_LIST_PATTERN}(\s*/\s*{CPU_LIST_PATTERN})?"


def vm_cpus() -> ValueType:
    """Make the type of the CPUs that each VM may use."""
    expected = '"any", "1 each" (a number of CPUs for each VM), CPUs "0-1", or "0/1" for the VMs of a pair'
    return _make_cpu_type(
        ("any",), expected, rf"[0-9]+\s+each|{_ENDPOINT_CPUS_PATTERN}", canonicalize_vm_cpu_sets
    )


def thread_cpus() -> ValueType:
    """Make the type of the CPU of each thread."""
    expected = '"any", "spread", CPUs "0-1" for the threads in turn, or "0-1/2-3" for the VMs of a pair'
    return _make_cpu_type(
        ("any", "spread"), expected, _ENDPOINT_CPUS_PATTERN, canonicalize_endpoint_cpu_lists
    )


def emulator_cpus() -> ValueType:
    """Make the type of the host CPUs of QEMU's own threads."""
    expected = '"any", "own" (CPUs of the vCPUs), "apart" (others) or CPUs such as "0-1"'
    return _make_cpu_type(("any", "own", "apart"), expected)


def device_cpus() -> ValueType:
    """Make the type of the CPUs for the packet processing of a device under test."""
    return _make_cpu_type(("auto", "apart", "any"), '"auto", "apart", "any" or CPUs such as "2-3"')


def interrupt_cpus() -> ValueType:
    """Make the type of the CPUs that take an adapter's interrupts."""
    return _make_cpu_type(("spread",), '"spread" or CPUs such as "0-1"')


def receive_processing_cpus() -> ValueType:
    """Make the type of the CPUs for receive processing."""
    known = ("off", "own", "apart", "spread")
    return _make_cpu_type(known, '"off", "own", "apart", "spread" or CPUs such as "0-1"')
