"""A study file's text as TOML: its values, the line that each stands in, and what in it is no TOML."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import tree_sitter_toml
from tree_sitter import Language, Node, Parser

from vnetbench.printable import make_printable
from vnetbench.study.problems import Problem, StudyLocation, WrongValue

MAX_CHARACTERS = 65_536
"""Of a study file. With MAX_LINE it bounds what nested keys can cost (tomllib: cubic in their depth)."""

MAX_LINE_CHARACTERS = 2000
"""Characters; no number in a line can have more digits than Python reads (4300)."""

_MAX_SYNTAX_PROBLEMS = 20
_MAX_DEPTH = 6
"""Places deeper than this are not looked for: a study has none."""

_KeyPath = tuple[str | int, ...]

_KEY = r"""(?:[A-Za-z0-9_.-]+|"[^"]*"|'[^']*')"""
_KEY_EQUALS_VALUE = re.compile(rf"\s*({_KEY})\s*=(.*)")
_KEY_COLON_VALUE = re.compile(rf"\s*({_KEY})\s*:\s*(.*)")
_ERROR_POSITION = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


@dataclass(frozen=True)
class TomlDocument:
    """A study file as read; where `problems` is not empty, `values` lacks the lines at fault."""

    values: Mapping[str, object]
    problems: tuple[Problem, ...]
    text: str
    """What `values` was read from."""
    name: str
    """What stands before a line number in front of a person."""

    def locate(self, *path: str | int) -> StudyLocation:
        """Where a key, a table or an item of a list stands, or else what it is in."""
        while path and path not in self._line_numbers:
            path = path[:-1]
        return _make_location(self.name, self._line_numbers.get(path, 1))

    @cached_property
    def _line_numbers(self) -> dict[_KeyPath, int]:
        tree = _syntax_tree(self.text)
        lines: dict[_KeyPath, int] = {}
        tables: dict[_KeyPath, int] = {}
        for node in tree.children:
            if node.type == "pair":
                _record_pair(lines, (), node)
            elif node.type in ("table", "table_array_element"):
                path = _key_path(node)
                lines.setdefault(path, _line_number(node))
                if node.type == "table_array_element":
                    tables[path] = tables.get(path, -1) + 1
                    path = (*path, tables[path])
                    lines[path] = _line_number(node)
                for child in node.children:
                    if child.type == "pair":
                        _record_pair(lines, path, child)
        return lines


def read_document(text: str, path: str | None) -> TomlDocument:
    """The document of a text; what is no TOML is in its `problems`, nothing is raised."""
    name = "study" if path is None else make_printable(path)
    if refused := _find_oversize(text):
        return TomlDocument({}, (_make_location(name, refused[0]).make_problem(refused[1]),), "", name)
    lines = text.removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}").split("\n")
    problems: list[Problem] = []
    while len(problems) < _MAX_SYNTAX_PROBLEMS:
        left = "\n".join(lines)
        try:
            return TomlDocument(tomllib.loads(left), tuple(problems), left, name)
        except RecursionError:
            deep = WrongValue("this nests too deeply", fix="a study has sections, keys and lists, no more")
            problems.append(_make_location(name, 1).make_problem(deep))
            break
        except tomllib.TOMLDecodeError as error:
            number = _error_line(str(error), left)
            line = lines[number - 1]
            problems.append(
                _make_location(name, number).make_problem(_explain_syntax_error(str(error), line))
            )
            if not _is_whole_statement(line):
                break
            lines[number - 1] = ""
    return TomlDocument({}, tuple(problems), "", name)


def _find_oversize(text: str) -> tuple[int, WrongValue] | None:
    """Line and reason of what is not even tried."""
    if len(text) > MAX_CHARACTERS:
        return 1, WrongValue(
            f"the file has {len(text)} characters, more than any study",
            fix=f"a study file has {MAX_CHARACTERS} at most",
        )
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > MAX_LINE_CHARACTERS:
            return number, WrongValue(
                f"a line of {len(line)} characters",
                fix=f"break it up: a line has {MAX_LINE_CHARACTERS} at most (a list may go over several lines)",
            )
        if not line.isascii() and any("\ud800" <= c <= "\udfff" for c in line):
            return number, WrongValue("this line is not UTF-8", fix="save the file as UTF-8")
    return None


def _error_line(message: str, text: str) -> int:
    """The line of tomllib's message, or of the syntax tree's first error where that names none."""
    position = _ERROR_POSITION.search(message)
    if position and position[1]:
        return int(position[1])
    last = len(text.rstrip().split("\n"))
    error = next(_error_nodes(_syntax_tree(text)), None)
    return last if error is None else min(last, _line_number(error))


def _is_whole_statement(line: str) -> bool:
    """Whether a line is a whole statement: only then can it be left out without making others wrong."""
    statement = _KEY_EQUALS_VALUE.match(line) or _KEY_COLON_VALUE.match(line)
    brackets = all(line.count(opening) == line.count(closing) for opening, closing in ("[]", "{}"))
    return statement is not None and brackets and '"""' not in line and "'''" not in line


def _explain_syntax_error(message: str, line: str) -> WrongValue:
    statement = _KEY_EQUALS_VALUE.match(line)
    if "Cannot overwrite" in message:
        what = make_printable(statement[1]) if statement else "what ends here"
        return WrongValue(f"{what} is set twice", fix="take one of the two away")
    if "Cannot declare" in message or "Cannot mutate" in message:
        return WrongValue(
            f"{make_printable(line.strip())[:60]} stands twice", fix="put all of its keys under one heading"
        )
    if with_colon := _KEY_COLON_VALUE.match(line):
        key = make_printable(with_colon[1])
        return WrongValue(f"{key} is followed by a colon", fix=f"write {key} = and its value")
    if statement:
        key, value = make_printable(statement[1]), make_printable(statement[2].split("#")[0].strip())
        if not value:
            return WrongValue(f"{key} has no value", fix=f"write it after the {key} =")
        if value[0] not in "\"'[{" and '"' not in value:
            return WrongValue(f"{value[:60]} needs quotes", fix=f'write {key} = "{value[:60]}"')
        if value[0] == '"' and value.count('"') == 1:
            return WrongValue("the quotes are not closed", fix=f'write {key} = {value[:60]}"')
    what = make_printable(_ERROR_POSITION.sub("", message))
    return WrongValue(
        f"this is not TOML: {what[:1].lower()}{what[1:]}",
        fix='write key = value, [section] or # remark, with "quotes" around everything but numbers',
    )


def _make_location(name: str, line: int) -> StudyLocation:
    return StudyLocation(f"{name}:{line}", line)


def _syntax_tree(text: str) -> Node:
    return Parser(Language(tree_sitter_toml.language())).parse(text.encode()).root_node


def _error_nodes(node: Node) -> Iterator[Node]:
    """Faulty nodes of a syntax tree in the order of the text; without recursion: it may nest deeply."""
    waiting = [node]
    while waiting:
        at = waiting.pop()
        if at.type == "ERROR" or at.is_missing:
            yield at
        elif at.has_error:
            waiting += reversed(at.children)


def _line_number(node: Node) -> int:
    return int(node.start_point[0]) + 1


def _key_path(node: Node) -> _KeyPath:
    """The path that the key of a pair or a heading names."""
    key = next(child for child in node.children if child.type.endswith("_key"))
    # tomllib itself undoes quotes, escapes and dots, so that both readings always agree.
    inner: object = tomllib.loads(f"{(key.text or b'').decode()} = 0")
    path: list[str | int] = []
    while isinstance(inner, dict):
        name, inner = next(iter(inner.items()))
        path.append(name)
    return tuple(path)


def _record_pair(lines: dict[_KeyPath, int], above: _KeyPath, node: Node) -> None:
    path = (*above, *_key_path(node))
    for length in range(len(above) + 1, min(len(path), _MAX_DEPTH) + 1):
        lines.setdefault(path[:length], _line_number(node))
    _record_value(lines, path, node.children[-1])


def _record_value(lines: dict[_KeyPath, int], path: _KeyPath, value: Node) -> None:
    if len(path) >= _MAX_DEPTH:
        return
    if value.type == "inline_table":
        for child in value.children:
            if child.type == "pair":
                _record_pair(lines, path, child)
    elif value.type == "array":
        items = [child for child in value.children if child.is_named and child.type != "comment"]
        for position, item in enumerate(items):
            lines[(*path, position)] = _line_number(item)
            _record_value(lines, (*path, position), item)
