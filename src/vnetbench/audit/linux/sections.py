"""The output of `collect.sh`: sections with the content of a file or the output of a command each."""

from __future__ import annotations

import re
from dataclasses import dataclass

from vnetbench.errors import BenchError

FORMAT_LINE = "vnetbench-linux-audit 1"
_SECTION = re.compile(r"^@@ (.+)$", re.MULTILINE)
_WHOLE_NUMBER = re.compile(r"-?\d{1,18}")


@dataclass(frozen=True)
class Sections:
    """Texts by section name, and the values of small files by path."""

    texts: dict[str, str]
    values: dict[str, str]

    def text(self, name: str) -> str:
        """Return a section, or an empty text."""
        return self.texts.get(name, "")

    def number(self, path: str) -> int | None:
        """Return the whole number in a file, or None."""
        return parse_number(self.values.get(path))

    def fields(self, name: str) -> dict[str, str]:
        """Return the lines `key: value` of a section; the first of equal keys counts."""
        return parse_fields(self.text(name))


def is_linux_listing(head: str) -> bool:
    """Return whether a file starts like the output of `collect.sh`."""
    return FORMAT_LINE in head[:200]


def parse_sections(text: str) -> Sections:
    """Split the output of `collect.sh`.

    Raises:
        BenchError: this is no such output, or a part of it.
    """
    parts = _SECTION.split(text)
    texts = dict(zip(parts[1::2], (part.strip("\n") for part in parts[2::2]), strict=True))
    if texts.get("format") != FORMAT_LINE:
        raise BenchError("this is no output of the audit script", fix="run the script again with POSIX sh")
    if "end" not in texts:
        raise BenchError("the output of the audit script is cut off", fix="run the script to its end")
    values: dict[str, str] = {}
    for name, part in texts.items():
        if name == "values" or name.startswith("interface "):
            lines = (line.partition(":") for line in part.splitlines())
            values |= {path: value for path, separator, value in lines if separator}
    return Sections(texts, values)


def parse_fields(text: str) -> dict[str, str]:
    """Return the lines `key: value` of a text; the first of equal keys counts."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        key, separator, value = line.partition(":")
        if separator:
            fields.setdefault(key.strip(), value.strip())
    return fields


def parse_number(text: str | None) -> int | None:
    """Return a whole number, or None for any other text."""
    text = (text or "").strip()
    return int(text) if _WHOLE_NUMBER.fullmatch(text) else None


def parse_cpu_list(text: str) -> set[int]:
    """Return the CPUs of a list such as 0-3,8; what is no number is left out."""
    cpus: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        low, high = parse_number(first), parse_number(last or first)
        if low is not None and high is not None and 0 <= low <= high < 65536:
            cpus.update(range(low, high + 1))
    return cpus
