"""The documentation holds: its links lead somewhere, its commands parse and its studies load."""

from __future__ import annotations

import gzip
import itertools
import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest

from tests.docs.pages import ROOT, Block, Command, blocks, commands, is_study, links, pages
from tests.faults import bench_process as bench
from vnetbench.cli import cli
from vnetbench.errors import BenchError
from vnetbench.study.file.load import load_study, parse_study

BLOCKS = [block for page in pages() for block in blocks(page)]
COMMANDS = [command for block in BLOCKS for command in commands(block)]
SHELL = ("|", ">", "&&", "||", "&", ";")
STUDIES = [block for block in BLOCKS if is_study(block)]


def test_commands_and_studies_are_found_on_the_pages() -> None:
    assert len([c for c in COMMANDS if c.words.startswith("run studies/")]) > 20
    assert len(COMMANDS) > 80 and len(STUDIES) > 4 and len(pages()) > 30


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file(page: Path) -> None:
    assert [target for target in links(page) if not (page.parent / target).exists()] == []


def test_the_index_names_every_page() -> None:
    index = ROOT / "docs" / "README.md"
    named = {(index.parent / target).resolve() for target in links(index)}
    assert [page for page in pages() if page not in named | {index, ROOT / "README.md"}] == []


@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_every_command_parses(command: Command) -> None:
    parsed(command)


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.words.startswith("run studies/")], ids=str)
def test_every_command_asks_what_its_study_can_be_asked(command: Command) -> None:
    asked = parsed(command)
    load_study(ROOT / asked["study"], asked["overrides"])


@pytest.mark.parametrize("block", STUDIES, ids=str)
def test_every_study_loads(block: Block) -> None:
    assert parse_study(block.text, str(block)).factors


def test_a_wrong_option_and_a_wrong_level_are_noticed() -> None:
    with pytest.raises(click.UsageError):
        parsed(Command("here", "run studies/offloads.toml --outptu x.vnb"))
    with pytest.raises(click.UsageError):
        parsed(Command("here", "lab upp play"))
    with pytest.raises(BenchError):
        load_study(ROOT / "studies/offloads.toml", ["tso=perhaps"])


def test_the_explanation_in_the_readme_is_one_that_is_printed(tmp_path: Path) -> None:
    recorded = ROOT / "tests" / "data" / "results" / "corpus" / "877a17fd809d.vnb.gz"
    (tmp_path / "small.vnb").write_bytes(gzip.decompress(recorded.read_bytes()))
    code, output = bench.run("explain", tmp_path / "small.vnb")

    _, _, rest = (ROOT / "README.md").read_text().partition("    $ vnetbench explain small.vnb\n")
    sample = itertools.takewhile(lambda line: not line or line.startswith("    "), rest.splitlines())
    shown = "\n".join(line.removeprefix("    ") for line in sample).strip()
    # "…" stands for lines that are left out.
    parts = [re.escape(part) for part in re.split(r"^ *…$", shown, flags=re.MULTILINE)]
    assert code == 0 and len(parts) > 1
    assert re.fullmatch(".*".join(parts), output.strip(), re.DOTALL)


def parsed(command: Command) -> dict[str, Any]:
    """The parameters that the command line would be called with; raises click's own errors."""
    words = shlex.split(command.words, comments=True)
    words = list(itertools.takewhile(lambda word: word not in SHELL, words))
    found: click.Command | None = cli
    context = None
    while isinstance(found, click.Group):
        context = click.Context(found, parent=context)
        name = words.pop(0)
        found = found.get_command(context, name)
        if found is None:
            raise click.UsageError(f"there is no command {name}", context)
    assert found is not None
    return found.make_context(found.name, words, parent=context).params
