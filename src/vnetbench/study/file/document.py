"""TOML text of a study file: its values, the line of each key, and its syntax errors."""

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
"""Maximum length of a study file. Together with MAX_LINE_CHARACTERS it bounds the time for nested keys
(tomllib: cubic in their depth)."""

MAX_LINE_CHARACTERS = 2000
"""Maximum length of a line; a number in it then has fewer digits than Python's limit (4300)."""

_MAX_SYNTAX_PROBLEMS = 20
_MAX_RECORDED_KEY_DEPTH = 6
"""Maximum depth of keys whose lines are recorded; studies have none that are deeper."""

KeyPath = tuple[str | int, ...]
"""Keys and list positions from the head of the file to a value."""

_KEY = r"""(?:[A-Za-z0-9_.-]+|"[^"]*"|'[^']*')"""
_KEY_EQUALS_VALUE = re.compile(rf"\s*({_KEY})\s*=(.*)")
_KEY_COLON_VALUE = re.compile(rf"\s*({_KEY})\s*:\s*(.*)")
_ERROR_POSITION = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


@dataclass(frozen=True)
class TomlDocument:
    """A parsed study file; if it has problems, `values` lacks the lines with syntax errors."""

    values: Mapping[str, object]
    problems: tuple[Problem, ...]
    parsed_text: str
    """Text that `values` was parsed from: the file without the lines with syntax errors."""
    name_in_messages: str
    """Name of the file in error messages."""

    def locate(self, *path: str | int) -> StudyLocation:
        """Return the location of a key, a table or a list item, or of what contains it."""
        while path and path not in self._line_numbers:
            path = path[:-1]
        return _make_location(self.name_in_messages, self._line_numbers.get(path, 1))

    @cached_property
    def _line_numbers(self) -> dict[KeyPath, int]:
        tree = parse_syntax_tree(self.parsed_text)
        lines: dict[KeyPath, int] = {}
        tables: dict[KeyPath, int] = {}
        for node in tree.children:
            if node.type == "pair":
                _record_lines_of_pair(lines, (), node)
            elif node.type in ("table", "table_array_element"):
                path = read_own_key_path(node)
                lines.setdefault(path, _get_line_number(node))
                if node.type == "table_array_element":
                    tables[path] = tables.get(path, -1) + 1
                    path = (*path, tables[path])
                    lines[path] = _get_line_number(node)
                for child in node.children:
                    if child.type == "pair":
                        _record_lines_of_pair(lines, path, child)
        return lines


def read_document(text: str, file_path: str | None) -> TomlDocument:
    """Parse a text; syntax errors become its `problems`, and nothing is raised."""
    name = "study" if file_path is None else make_printable(file_path)
    if refused := _find_line_refused_before_parsing(text):
        return TomlDocument({}, (_make_location(name, refused[0]).wrap_error(refused[1]),), "", name)
    lines = text.removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}").split("\n")
    problems: list[Problem] = []
    while len(problems) < _MAX_SYNTAX_PROBLEMS:
        left = "\n".join(lines)
        try:
            return TomlDocument(tomllib.loads(left), tuple(problems), left, name)
        except RecursionError:
            deep = WrongValue("the values are nested too deeply", fix="use only sections, keys and lists")
            problems.append(_make_location(name, 1).wrap_error(deep))
            break
        except tomllib.TOMLDecodeError as error:
            number = _find_error_line(str(error), left)
            line = lines[number - 1]
            problems.append(_make_location(name, number).wrap_error(_explain_syntax_error(str(error), line)))
            if not _is_whole_statement(line):
                break
            lines[number - 1] = ""
    return TomlDocument({}, tuple(problems), "", name)


def _find_line_refused_before_parsing(text: str) -> tuple[int, WrongValue] | None:
    """Return the number and error of a line that is too long or not UTF-8; line 1 if the text is too long."""
    if len(text) > MAX_CHARACTERS:
        return 1, WrongValue(
            f"the file has {len(text)} characters, which is too many",
            fix=f"shorten the study file to at most {MAX_CHARACTERS} characters",
        )
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > MAX_LINE_CHARACTERS:
            return number, WrongValue(
                f"this line has {len(line)} characters, which is too many",
                fix=f"split it into lines of at most {MAX_LINE_CHARACTERS} characters (a list can span "
                f"several lines)",
            )
        if not line.isascii() and any("\ud800" <= c <= "\udfff" for c in line):
            return number, WrongValue("this line is not UTF-8", fix="save the file as UTF-8")
    return None


def _find_error_line(message: str, text: str) -> int:
    """Return the line of tomllib's message, or of the first error in the syntax tree."""
    position = _ERROR_POSITION.search(message)
    if position and position[1]:
        return int(position[1])
    last = len(text.rstrip().split("\n"))
    error = next(_find_error_nodes(parse_syntax_tree(text)), None)
    return last if error is None else min(last, _get_line_number(error))


def _is_whole_statement(line: str) -> bool:
    """Return whether a line is a complete statement: only then can the parser skip it safely."""
    statement = _KEY_EQUALS_VALUE.match(line) or _KEY_COLON_VALUE.match(line)
    brackets = all(line.count(opening) == line.count(closing) for opening, closing in ("[]", "{}"))
    return statement is not None and brackets and '"""' not in line and "'''" not in line


def _explain_syntax_error(message: str, line: str) -> WrongValue:
    statement = _KEY_EQUALS_VALUE.match(line)
    if "Cannot overwrite" in message:
        what = make_printable(statement[1]) if statement else "this key"
        return WrongValue(f"{what} is set twice", fix="remove one of the two values")
    if "Cannot declare" in message or "Cannot mutate" in message:
        return WrongValue(
            f"{make_printable(line.strip())[:60]} appears twice",
            fix="write all of its keys under one heading",
        )
    if with_colon := _KEY_COLON_VALUE.match(line):
        key = make_printable(with_colon[1])
        return WrongValue(f"{key} is followed by a colon", fix=f"write {key} = VALUE")
    if statement:
        key, value = make_printable(statement[1]), make_printable(statement[2].split("#")[0].strip())
        if not value:
            return WrongValue(f"{key} has no value", fix=f"write a value after {key} =")
        if value[0] not in "\"'[{" and '"' not in value:
            return WrongValue(f"{value[:60]} needs quotes", fix=f'write {key} = "{value[:60]}"')
        if value[0] == '"' and value.count('"') == 1:
            return WrongValue("the quotes are not closed", fix=f'write {key} = {value[:60]}"')
    what = make_printable(_ERROR_POSITION.sub("", message))
    return WrongValue(
        f"this is not TOML: {what[:1].lower()}{what[1:]}",
        fix='write key = value, [section] or # comment, with "quotes" around everything except numbers',
    )


def _make_location(name_in_messages: str, line: int) -> StudyLocation:
    return StudyLocation(f"{name_in_messages}:{line}", line)


def parse_syntax_tree(text: str) -> Node:
    """Return the syntax tree of a TOML text."""
    return Parser(Language(tree_sitter_toml.language())).parse(text.encode()).root_node


def _find_error_nodes(node: Node) -> Iterator[Node]:
    """Yield the error nodes of a syntax tree in text order, without recursion, because it can be deep."""
    pending = [node]
    while pending:
        current = pending.pop()
        if current.type == "ERROR" or current.is_missing:
            yield current
        elif current.has_error:
            pending += reversed(current.children)


def _get_line_number(node: Node) -> int:
    return int(node.start_point[0]) + 1


def read_own_key_path(node: Node) -> KeyPath:
    """Return the path of the key of a pair or a heading."""
    key = next(child for child in node.children if child.type.endswith("_key"))
    # tomllib resolves quotes, escapes and dots, so that the path always agrees with the values.
    inner: object = tomllib.loads(f"{(key.text or b'').decode()} = 0")
    path: list[str | int] = []
    while isinstance(inner, dict):
        name, inner = next(iter(inner.items()))
        path.append(name)
    return tuple(path)


def _record_lines_of_pair(lines: dict[KeyPath, int], table_path: KeyPath, node: Node) -> None:
    path = (*table_path, *read_own_key_path(node))
    for length in range(len(table_path) + 1, min(len(path), _MAX_RECORDED_KEY_DEPTH) + 1):
        lines.setdefault(path[:length], _get_line_number(node))
    _record_lines_of_value(lines, path, node.children[-1])


def _record_lines_of_value(lines: dict[KeyPath, int], path: KeyPath, value: Node) -> None:
    if len(path) >= _MAX_RECORDED_KEY_DEPTH:
        return
    if value.type == "inline_table":
        for child in value.children:
            if child.type == "pair":
                _record_lines_of_pair(lines, path, child)
    elif value.type == "array":
        items = [child for child in value.children if child.is_named and child.type != "comment"]
        for position, item in enumerate(items):
            lines[(*path, position)] = _get_line_number(item)
            _record_lines_of_value(lines, (*path, position), item)
