"""Pages of the documentation, with their links, code blocks and commands."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^ *```(\w*)")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
INLINE_CODE = re.compile(r"`[^`]*`")
COMMAND = re.compile(r"^(?:\$ )?(?:sudo )?(?:taskset -c \S+ )?(?:\.venv/bin/)?vnetbench (?P<words>.+)$")


@dataclass(frozen=True)
class Block:
    """One code block, without its fence or indent."""

    page: Path
    line: int
    language: str
    """Language of the fence; empty for an indented block."""
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@dataclass(frozen=True)
class Command:
    """One `vnetbench …` of a code block, without the word `vnetbench`."""

    location: str
    words: str

    def __str__(self) -> str:
        return f"{self.location} {self.words}"


def list_pages() -> list[Path]:
    """Return the README and every page in docs/."""
    return [*ROOT.glob("README.md"), *sorted((ROOT / "docs").rglob("*.md"))]


def find_links(page: Path) -> list[str]:
    """Return the targets of a page's links to files of this repository, without anchors."""
    prose = INLINE_CODE.sub("", _prose(page))
    targets = (target.partition("#")[0] for target in LINK.findall(prose))
    return [target for target in targets if target and "://" not in target]


def find_blocks(page: Path) -> list[Block]:
    """Return the code blocks of a page: fenced, or indented by four spaces after an empty line."""
    result: list[Block] = []
    lines = page.read_text().splitlines()
    number = 0
    while number < len(lines):
        start = number
        if fence := FENCE.match(lines[number]):
            number = next(i for i in range(start + 1, len(lines)) if FENCE.match(lines[i]))
            result.append(Block(page, start + 2, fence[1], "\n".join(lines[start + 1 : number])))
        elif lines[number].startswith("    ") and not lines[number - 1].strip():
            while number < len(lines) and (lines[number].startswith("    ") or not lines[number].strip()):
                number += 1
            text = "\n".join(line.removeprefix("    ") for line in lines[start:number])
            result.append(Block(page, start + 1, "", text.rstrip()))
            continue
        number += 1
    return result


def find_commands(block: Block) -> list[Command]:
    """Return the commands in a block; a backslash at the end of a line continues a command."""
    joined = re.sub(r"\\\n\s*", "", block.text)
    return [Command(str(block), match["words"]) for match in map(COMMAND.match, joined.splitlines()) if match]


def is_study(block: Block) -> bool:
    """Return whether a block is a complete study, which has a title."""
    return block.language in ("", "toml") and re.search(r"^title = ", block.text, re.MULTILINE) is not None


def _prose(page: Path) -> str:
    kept, fenced = [], False
    for line in page.read_text().splitlines():
        if FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            kept.append(line)
    return "\n".join(kept)
