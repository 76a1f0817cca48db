"""The kinds of value that a study has: how each is read, spelled, described and put into the JSON Schema."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from vnetbench import quantity
from vnetbench.errors import BenchError
from vnetbench.study.factors import cpu_lists
from vnetbench.study.factors.directions import MIX_PATTERN, WORDS, canonical_mix
from vnetbench.study.model import Level
from vnetbench.study.problems import WrongValue, shown, suggest

Json = dict[str, object]


@dataclass(frozen=True)
class Kind:
    """One kind of value."""

    expects: str
    """What is expected, in words that end the sentence "write …"."""
    parse: Callable[[object], Level]
    """The canonical value of a raw TOML value; raises a BenchError with `what` and `fix`."""
    spell: Callable[[Level], str]
    """The canonical value as a person writes it; `parse(spell(x)) == x`."""
    pattern: str
    """Regular expression (the dialect that JSON Schema and Python share) of its form as a string."""
    other_forms: tuple[Json, ...] = ()
    """JSON Schemas of its forms that are no string."""
    words: tuple[str, ...] = ()
    """Words that it takes beside or in place of quantities, for completion."""
    counts: bool = False
    """Whole numbers: "1..16" means every one of them."""
    commas: bool = False
    """A value may have commas in it (CPU lists)."""
    is_text: bool = False
    """A value is any text: nothing in it is an expression."""


def counts(low: int, high: int, *words: str, unit: str = "") -> Kind:
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
                raise WrongValue(f"{shown(raw)} is not a whole number", fix=f"write {expects}")
            raw = int(number[1])
        if isinstance(raw, bool) or not isinstance(raw, int):
            raise WrongValue(f"{shown(raw)} is not a whole number", fix=f"write {expects}")
        if not low <= raw <= high:
            raise WrongValue(f"{shown(raw)} is out of range", fix=f"write {expects}")
        return raw

    pattern = "|".join((*words, rf"[+]?[0-9]+(\s*{unit})?" if unit else r"[+]?[0-9]+"))
    number: Json = {"type": "integer", "minimum": low, "maximum": high}
    return Kind(expects, parse, str, f"({pattern})" if words else pattern, (number,), words, counts=True)


def _quantities(
    noun: str,
    read: Callable[[str], float | int],
    spell: Callable[[float | int], str],
    low: float,
    high: float,
    units: str,
    words: tuple[str, ...],
) -> Kind:
    or_words = "".join(f' or "{word}"' for word in words)
    expects = f'a {noun} from "{spell(low)}" to "{spell(high)}"{or_words}'

    def parse(raw: object) -> Level:
        if isinstance(raw, str):
            text = raw.strip()
            if text in words:
                return text
            if text[:1].isalpha() and words:
                fix = suggest(text, words, otherwise=f"write {expects}")
                raise WrongValue(f"{shown(raw)} is not a {noun}", fix=fix)
            value = read(raw)
            if not low <= value <= high:
                raise WrongValue(f"{shown(raw)} is out of range", fix=f"write {expects}")
            return value
        if isinstance(raw, int | float) and not isinstance(raw, bool):
            read(f"{shown(raw)}")  # A bare number has no unit: this raises the sentence that lists them.
        raise WrongValue(f"{shown(raw)} is not a {noun}", fix=f"write {expects}, in quotes")

    def spell_level(level: Level) -> str:
        return level if isinstance(level, str) else spell(level)

    number = r"[+]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?"
    term = rf"{number}\s*({units})"
    pattern = "|".join((*words, rf"{term}(\s*{term})*"))
    return Kind(expects, parse, spell_level, f"({pattern})", words=words)


def durations(low_s: float, high_s: float, *words: str) -> Kind:
    """A duration in seconds, or one of the words."""
    units = "µs|μs|us|ms|s|min|h"
    return _quantities(
        "duration", quantity.parse_duration, quantity.spell_duration, low_s, high_s, units, words
    )


def sizes(low: int, high: int, *words: str) -> Kind:
    """A size in whole bytes, or one of the words."""

    def spell(size: float | int) -> str:
        return quantity.spell_bytes(int(size))

    return _quantities("size", quantity.parse_bytes, spell, low, high, "B|kB|KB|KiB|MB|MiB|GB|GiB", words)


def rates(low_bps: int, high_bps: int, *words: str) -> Kind:
    """A rate in whole bits/s, or one of the words."""
    units = "bit/s|kbit/s|Mbit/s|Gbit/s|bps|kbps|Mbps|Gbps"
    return _quantities("rate", quantity.parse_rate, quantity.spell_rate, low_bps, high_bps, units, words)


def frequencies(low_per_s: float, high_per_s: float, *words: str) -> Kind:
    """So many a second, or one of the words."""
    units = "/s|k/s|M/s"
    parse, spell = quantity.parse_frequency, quantity.spell_frequency
    return _quantities("frequency", parse, spell, low_per_s, high_per_s, units, words)


def frame_rates(low_fps: float, high_fps: float, *words: str) -> Kind:
    """So many frames a second, or one of the words."""
    units = "frame/s|kframe/s|Mframe/s|frames/s|kframes/s|Mframes/s"
    parse, spell = quantity.parse_frame_rate, quantity.spell_frame_rate
    return _quantities("frame rate", parse, spell, low_fps, high_fps, units, words)


def frame_loads(low_fps: float, high_fps: float, *words: str) -> Kind:
    """A frame rate, a share of the throughput (a level as "90 %"), or one of the words."""
    rate, share = frame_rates(low_fps, high_fps, *words), shares(0.01, 2)

    def parse(raw: object) -> Level:
        is_share = isinstance(raw, str) and raw.strip().endswith("%")
        return share.spell(share.parse(raw)) if is_share else rate.parse(raw)

    expects = f'{rate.expects}, or a share of the throughput such as "90 %"'
    return Kind(expects, parse, rate.spell, f"({rate.pattern}|{share.pattern})", words=words)


def loss_goals(most: int) -> Kind:
    """Accepted shares of lost frames, ascending: a text, or a list; a level as "0 %, 0.5 %"."""
    share = shares(0, 0.5)
    expects = f'up to {most} ascending shares from "0 %" to "50 %", such as ["0 %", "0.5 %"]'

    def parse(raw: object) -> Level:
        parts = raw if isinstance(raw, list) else raw.split(",") if isinstance(raw, str) else [raw]
        goals = [float(share.parse(part)) for part in parts]
        if not 1 <= len(goals) <= most or goals != sorted(set(goals)):
            raise WrongValue("these are not a few goals in ascending order", fix=f"write {expects}")
        return ", ".join(map(share.spell, goals))

    many: Json = {"type": "array", "items": {"type": "string", "pattern": rf"^\s*({share.pattern})\s*$"}}
    many |= {"minItems": 1, "maxItems": most}
    return Kind(expects, parse, str, rf"{share.pattern}(\s*,\s*{share.pattern})*", (many,), commas=True)


def shares(low: float, high: float, *words: str) -> Kind:
    """A share of 1, written as a percentage, or one of the words."""
    return _quantities("share", quantity.parse_share, quantity.spell_share, low, high, "%", words)


def words(*known: str) -> Kind:
    """One of a few words."""
    listed = ", ".join(f'"{word}"' for word in known)
    expects = f"one of {listed}" if len(known) > 1 else listed

    def parse(raw: object) -> str:
        if isinstance(raw, str) and raw.strip() in known:
            return raw.strip()
        near = raw.strip() if isinstance(raw, str) else ""
        raise WrongValue(
            f"{shown(raw)} is not known here", fix=suggest(near, known, otherwise=f"write {expects}")
        )

    return Kind(expects, parse, str, f"({'|'.join(known)})", words=known)


def texts(longest: int) -> Kind:
    """A text for people, at most `longest` characters; line breaks and runs of spaces become one space."""
    expects = f"a text of 1 to {longest} characters"

    def parse(raw: object) -> str:
        if not isinstance(raw, str):
            raise WrongValue(f"{shown(raw)} is not a text", fix=f"write {expects}, in quotes")
        text = " ".join(raw.split())
        if not text or not text.isprintable() or len(text) > longest:
            what = (
                f"{len(text)} characters are too many"
                if len(text) > longest
                else f"{shown(raw)} has characters that cannot be printed"
                if text
                else "the text is empty"
            )
            raise WrongValue(what, fix=f"write {expects}")
        return text

    return Kind(expects, parse, str, r"\S[\s\S]*")


def switches() -> Kind:
    """ "on" or "off"; TOML's true and false mean the same."""
    on_off = words("on", "off")

    def parse(raw: object) -> Level:
        if isinstance(raw, bool):
            return "on" if raw else "off"
        if isinstance(raw, str) and raw.strip().lower() in ("true", "yes", "false", "no"):
            meant = "on" if raw.strip().lower() in ("true", "yes") else "off"
            raise WrongValue(
                f"{shown(raw)} is not known here", fix=f'did you mean "{meant}"? write "on" or "off"'
            )
        return on_off.parse(raw)

    return Kind('"on" or "off"', parse, str, on_off.pattern, ({"type": "boolean"},), words=on_off.words)


def truths() -> Kind:
    """true or false, bare."""

    def parse(raw: object) -> bool:
        if not isinstance(raw, bool):
            raise WrongValue(
                f"{shown(raw)} is neither true nor false", fix="write true or false, without quotes"
            )
        return raw

    def spell(level: Level) -> str:
        return "true" if level else "false"

    return Kind("true or false", parse, spell, "", ({"type": "boolean"},))


def versions(*known: int) -> Kind:
    """One of a few version numbers, bare or in quotes; a level is its digits: nothing to count with."""
    digits = words(*map(str, known))
    expects = " or ".join(digits.words)

    def parse(raw: object) -> Level:
        if isinstance(raw, bool) or not isinstance(raw, int | str) or str(raw).strip() not in digits.words:
            raise WrongValue(f"{shown(raw)} is not known here", fix=f"write {expects}")
        return str(raw).strip()

    return Kind(
        expects, parse, str, digits.pattern, ({"type": "integer", "enum": list(known)},), digits.words
    )


def algorithms() -> Kind:
    """The name of a congestion control of the kernel (TCP_CA_NAME_MAX: 15 characters and a NUL)."""
    expects = 'the kernel\'s name of a congestion control, such as "cubic", "bbr" or "reno"'

    def parse(raw: object) -> str:
        if isinstance(raw, str) and re.fullmatch(r"[a-z][a-z0-9_-]{0,14}", raw.strip()):
            return raw.strip()
        raise WrongValue(f"{shown(raw)} names no congestion control", fix=f"write {expects}")

    known = ("cubic", "reno", "bbr", "dctcp")
    return Kind(expects, parse, str, "[a-z][a-z0-9_-]{0,14}", words=known)


def _cpu_kind(known: tuple[str, ...], pattern: str, expects: str, canonical: Callable[[str], str]) -> Kind:
    def parse(raw: object) -> str:
        if isinstance(raw, int) and not isinstance(raw, bool) and 0 <= raw <= cpu_lists.MAX_CPU:
            return str(raw)
        if not isinstance(raw, str):
            raise WrongValue(f"{shown(raw)} names no CPUs", fix=f"write {expects}")
        text = raw.strip()
        if text in known:
            return text
        if len(text) > 1000 or not re.match(r"[0-9]", text):
            fix = suggest(text, known, otherwise=f"write {expects}")
            raise WrongValue(f"{shown(raw)} names no CPUs", fix=fix)
        try:
            return canonical(text)
        except BenchError as error:
            raise WrongValue(
                error.what, fix=error.fix if "CPUs go" in str(error.fix) else f"write {expects}"
            ) from error

    bare: Json = {"type": "integer", "minimum": 0, "maximum": cpu_lists.MAX_CPU}
    return Kind(expects, parse, str, f"({'|'.join((*known, pattern))})", (bare,), words=known, commas=True)


def placements() -> Kind:
    """Which CPUs the VMs may use."""
    expects = '"any", "1 each" (so many CPUs of its own for each VM), CPUs "0-1", or both VMs of a pair "0/1"'
    pattern = rf"[0-9]+\s+each|{cpu_lists.LIST_PATTERN}(\s*/\s*{cpu_lists.LIST_PATTERN})?"
    return _cpu_kind(("any",), pattern, expects, cpu_lists.canonical_placement)


def directions() -> Kind:
    """Which way streams go, or how many each way at once."""
    known = words(*WORDS)
    expects = f'{known.expects}, or a mix such as "3/1"'

    def parse(raw: object) -> str:
        if isinstance(raw, str) and "/" in raw:
            return canonical_mix(raw)
        try:
            return str(known.parse(raw))
        except WrongValue as error:
            near = "did you mean" in str(error.fix)
            raise WrongValue(error.what, fix=error.fix if near else f"write {expects}") from error

    return Kind(expects, parse, str, f"{known.pattern[:-1]}|{MIX_PATTERN})", words=known.words)


def thread_placements() -> Kind:
    """Which CPU each thread of the load runs on."""
    expects = '"any", "spread", CPUs "0-1" that the threads take in turn, or both VMs of a pair "0-1/2-3"'
    pattern = rf"{cpu_lists.LIST_PATTERN}(\s*/\s*{cpu_lists.LIST_PATTERN})?"
    return _cpu_kind(("any", "spread"), pattern, expects, cpu_lists.canonical_sides)


def emulator_cpus() -> Kind:
    """Which of the host's CPUs an emulator's own threads may use."""
    expects = '"any", "own", "apart" or CPUs such as "0-1"'
    return _cpu_kind(("any", "own", "apart"), cpu_lists.LIST_PATTERN, expects, cpu_lists.canonical_cpu_list)


def device_cpus() -> Kind:
    """Which CPUs do the packet processing of a device under test."""
    expects = '"auto", "apart", "any" or CPUs such as "2-3"'
    return _cpu_kind(("auto", "apart", "any"), cpu_lists.LIST_PATTERN, expects, cpu_lists.canonical_cpu_list)


def interrupt_cpus() -> Kind:
    """Which of an endpoint's CPUs take its adapter's interrupts."""
    expects = '"spread" or CPUs such as "0-1"'
    return _cpu_kind(("spread",), cpu_lists.LIST_PATTERN, expects, cpu_lists.canonical_cpu_list)


def receive_cpus() -> Kind:
    """Which CPUs do the receive processing."""
    known = ("off", "own", "apart", "spread")
    expects = '"off", "own", "apart", "spread" or CPUs such as "0-1"'
    return _cpu_kind(known, cpu_lists.LIST_PATTERN, expects, cpu_lists.canonical_cpu_list)
