"""The documentation is valid: its links resolve, its commands parse and its studies load."""

from __future__ import annotations

import gzip
import itertools
import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest

from tests.docs.pages import (
    ROOT,
    Block,
    Command,
    find_blocks,
    find_commands,
    find_links,
    is_study,
    list_pages,
)
from tests.faults import bench_process as bench
from vnetbench.cli import cli
from vnetbench.errors import BenchError
from vnetbench.study.file.load import load_study, parse_study

BLOCKS = [block for page in list_pages() for block in find_blocks(page)]
COMMANDS = [command for block in BLOCKS for command in find_commands(block)]
SHELL = ("|", ">", "&&", "||", "&", ";")
STUDIES = [block for block in BLOCKS if is_study(block)]


def test_commands_and_studies_are_found_on_the_pages() -> None:
    assert len([c for c in COMMANDS if c.words.startswith("run studies/")]) > 20
    assert len(COMMANDS) > 80 and len(STUDIES) > 4 and len(list_pages()) > 30


@pytest.mark.parametrize("page", list_pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_resolves_to_a_file(page: Path) -> None:
    assert [target for target in find_links(page) if not (page.parent / target).exists()] == []


def test_the_index_links_every_page() -> None:
    index = ROOT / "docs" / "README.md"
    named = {(index.parent / target).resolve() for target in find_links(index)}
    assert [page for page in list_pages() if page not in named | {index, ROOT / "README.md"}] == []


@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_every_command_parses(command: Command) -> None:
    parse_command(command)


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.words.startswith("run studies/")], ids=str)
def test_the_overrides_of_every_command_fit_its_study(command: Command) -> None:
    parameters = parse_command(command)
    load_study(ROOT / parameters["study"], parameters["overrides"])


@pytest.mark.parametrize("block", STUDIES, ids=str)
def test_every_study_loads(block: Block) -> None:
    assert parse_study(block.text, str(block)).factors


def test_an_invalid_option_and_an_invalid_level_are_detected() -> None:
    with pytest.raises(click.UsageError):
        parse_command(Command("here", "run studies/offloads.toml --outptu x.vnb"))
    with pytest.raises(click.UsageError):
        parse_command(Command("here", "lab upp play"))
    with pytest.raises(BenchError):
        load_study(ROOT / "studies/offloads.toml", ["tso=perhaps"])


def test_the_explanation_in_the_readme_is_the_printed_one(tmp_path: Path) -> None:
    recorded = ROOT / "tests" / "data" / "results" / "corpus" / "877a17fd809d.vnb.gz"
    (tmp_path / "small.vnb").write_bytes(gzip.decompress(recorded.read_bytes()))
    code, output = bench.run_warm("explain", tmp_path / "small.vnb")

    _, _, rest = (ROOT / "README.md").read_text().partition("    $ vnetbench explain small.vnb\n")
    sample = itertools.takewhile(lambda line: not line or line.startswith("    "), rest.splitlines())
    shown = "\n".join(line.removeprefix("    ") for line in sample).strip()
    # "…" stands for omitted lines.
    parts = [re.escape(part) for part in re.split(r"^ *…$", shown, flags=re.MULTILINE)]
    assert code == 0 and len(parts) > 1
    assert re.fullmatch(".*".join(parts), output.strip(), re.DOTALL)


def parse_command(command: Command) -> dict[str, Any]:
    """Return the parameters of the command line; raises click's own errors."""
    words = shlex.split(command.words, comments=True)
    words = list(itertools.takewhile(lambda word: word not in SHELL, words))
    current: click.Command | None = cli
    context = None
    while isinstance(current, click.Group):
        context = click.Context(current, parent=context)
        name = words.pop(0)
        current = current.get_command(context, name)
        if current is None:
            raise click.UsageError(f"no command {name}", context)
    assert current is not None
    return current.make_context(current.name, words, parent=context).params
