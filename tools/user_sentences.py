"""Print every sentence that a user can see, by module: python -m tools.user_sentences [--count].

Wording is reviewed as a whole, so this reads the sources and needs no run of the program. It takes string
literals of several words from the Python package, docstrings of commands (their help text), string values of
the TOML rules, and texts of the page's template. From the agent it takes string literals, and the comments
that clap prints as help. Placeholders stay in braces, as the source has them. A text that completes the
message of an error of the agent comes with that message.
"""

from __future__ import annotations

import argparse
import ast
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import tree_sitter_rust
from tree_sitter import Language, Node, Parser

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "vnetbench"
AGENT = ROOT / "agent"

FEWEST_WORDS = 3
"""A literal of fewer words is a label or a key, not a sentence."""

_WORD = re.compile(r"[A-Za-z][A-Za-z'’-]+")
_NOT_PROSE = re.compile(
    r"\s*(SELECT|INSERT|UPDATE|DELETE|CREATE|PRAGMA|ALTER|DROP|BEGIN|COMMIT|studies/)\b"
    r"|.*(\bdatum\.|\$[\w({])",
    re.DOTALL,
)
"""SQL, arguments of commands, expressions of charts (`datum.value`) and shell scripts (`$(uname)`)."""
_CONSTANT_FOR_PROGRAMS = re.compile(r"(FONT|PATTERNS?|COLUMNS?|HINTS?|BOOT_OPTIONS)$")
"""Names of constants whose texts a program compares or passes on."""
_TEXTS_OF_OTHER_TOOLS = PACKAGE / "importers" / "tools"
"""Tables of constants in these modules hold words that other tools print."""
_UNIT = "unit"
"""A parameter of this name takes a unit, which is shown with the other texts of a metric."""
_RUST_QUOTES = re.compile(r'^b?r?#*"|"#*$')
_RUST_CONTINUATION = re.compile(r"\\\n\s*")
_SEARCH_METHODS = (
    "startswith",
    "endswith",
    "removeprefix",
    "removesuffix",
    "partition",
    "split",
    "find",
    "get",
)
_ERROR_MESSAGE = re.compile(
    r'#\[error\("(?P<message>[^"]*)"[^\]]*\)\]\s*(?:///[^\n]*\n\s*)*(?P<variant>[A-Z]\w*)'
)
_TEXT_ATTRIBUTE = re.compile(rb"#\[(arg|command|error)\(")
_CLAP_ATTRIBUTE = re.compile(rb"#\[(arg|command)\(|#\[derive\(.*\b(Args|Parser|Subcommand)\b")
_FIRST_PLACEHOLDER = re.compile(r"\{\w+\}")
_COMMAND_DECORATORS = ("command", "group")
_TRANSPARENT = ("arguments", "token_tree", "macro_invocation", "reference_expression")
_RUST = Language(tree_sitter_rust.language())


@dataclass(frozen=True)
class Sentence:
    """A text that a user can see, and where the source has it."""

    file: Path
    line: int
    text: str
    context: str = ""
    """What takes the text: `BenchError.fix`, a keyword (`help`), or the agent's function (`refuse`)."""


def user_sentences() -> list[Sentence]:
    """Return every user-visible sentence of the bench and the agent, by file and line."""
    found: list[Sentence] = []
    modules = {file: file.read_text(encoding="utf-8") for file in sorted(PACKAGE.rglob("*.py"))}
    parameters = parameter_names(modules.values())
    for file, source in modules.items():
        found += python_sentences(source, file, parameters)
    for file in sorted(PACKAGE.rglob("*.toml")):
        found += toml_sentences(file.read_text(encoding="utf-8"), file)
    for file in sorted(PACKAGE.rglob("*.j2")):
        found += template_sentences(file.read_text(encoding="utf-8"), file)
    modules = {
        file: file.read_text(encoding="utf-8")
        for file in sorted(AGENT.rglob("*.rs"))
        if "tests" not in file.parts and file.name not in ("tests.rs", "test_network.rs")
    }
    test_modules = _test_modules(modules)
    modules = {file: source for file, source in modules.items() if file not in test_modules}
    messages = error_messages(modules.values())
    for file, source in modules.items():
        found += rust_sentences(source, file, messages)
    return found


def parameter_names(sources: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the positional parameters of each function and class whose name is defined once."""
    parameters: dict[str, tuple[str, ...]] = {}
    repeated: set[str] = set()
    for node in (node for source in sources for node in ast.parse(source).body):
        if isinstance(node, ast.FunctionDef):
            names = [argument.arg for argument in node.args.posonlyargs + node.args.args]
        elif isinstance(node, ast.ClassDef):
            names = _constructor_parameters(node)
        else:
            continue
        if node.name in parameters:
            repeated.add(node.name)
        parameters[node.name] = tuple(names)
    return {name: names for name, names in parameters.items() if name not in repeated}


def _constructor_parameters(node: ast.ClassDef) -> list[str]:
    """Return the parameters of `__init__`, or the fields of a dataclass."""
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
            return [argument.arg for argument in statement.args.args[1:]]
    fields = (item.target for item in node.body if isinstance(item, ast.AnnAssign))
    return [target.id for target in fields if isinstance(target, ast.Name)]


def python_sentences(
    source: str, file: Path, parameters: Mapping[str, tuple[str, ...]] | None = None
) -> Iterator[Sentence]:
    """Yield the sentences in a Python module's string literals and in its commands' docstrings.

    Args:
        source: Text of the module.
        file: Where it stands.
        parameters: Positional parameters of the package's functions and classes (`parameter_names`).
    """
    tree = ast.parse(source)
    skipped = {id(node) for node in ast.walk(tree) for node in _not_for_users(node)}
    skipped |= {id(node) for node in _constants_for_programs(tree, file)}
    contexts = _argument_names(tree, parameters or {})
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and _is_command(node) and (help_text := ast.get_docstring(node)):
            yield Sentence(file, node.lineno, help_text)
        if id(node) in skipped:
            continue
        if isinstance(node, ast.JoinedStr):
            skipped.update(id(part) for part in ast.walk(node))
            text = _f_string_text(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        else:
            continue
        context = contexts.get(id(node), "")
        if is_sentence(text) and context.rpartition(".")[2] != _UNIT:
            yield Sentence(file, node.lineno, text, context)


def _argument_names(tree: ast.Module, parameters: Mapping[str, tuple[str, ...]]) -> dict[int, str]:
    """Return the name of each call's argument, such as `BenchError.fix`, by the node's id."""
    names: dict[int, str] = {}
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        called = call.func.id if isinstance(call.func, ast.Name) else ""
        owner = f"{called}." if called in parameters else ""
        positional = zip(call.args, parameters.get(called, ()), strict=False)
        arguments = [*positional, *((keyword.value, keyword.arg) for keyword in call.keywords)]
        units = (value for value, name in arguments if name == _UNIT)
        unit = "".join(f", {_UNIT} {value.value!s}" for value in units if isinstance(value, ast.Constant))
        for value, name in arguments:
            parts = value.elts if isinstance(value, ast.Tuple) else [value]
            suffix = unit if called.endswith("Metric") and name != _UNIT else ""
            names.update((id(part), f"{owner}{name or ''}{suffix}") for part in parts)
    return names


def _constants_for_programs(tree: ast.Module, file: Path) -> Iterator[ast.AST]:
    """Yield the literals in module-level constants that a program compares or passes on."""
    for statement in tree.body:
        if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
            continue
        target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
        is_table = file.is_relative_to(_TEXTS_OF_OTHER_TOOLS) and not isinstance(
            statement.value, ast.Constant | ast.JoinedStr
        )
        name = target.id if isinstance(target, ast.Name) else ""
        if is_table or _CONSTANT_FOR_PROGRAMS.search(name):
            yield from ast.walk(statement.value)


def _not_for_users(node: ast.AST) -> Iterator[ast.AST]:
    """Yield literals that no user sees: docstrings, patterns, keys, and texts that are compared."""
    for field in ("body", "orelse", "finalbody"):
        statements = getattr(node, field, None)
        for statement in statements if isinstance(statements, list) else []:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                yield statement.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        called = node.func
        is_pattern = isinstance(called.value, ast.Name) and called.value.id == "re"
        if is_pattern or called.attr in _SEARCH_METHODS:
            for argument in node.args:
                yield from ast.walk(argument)
    elif isinstance(node, ast.Dict):
        yield from (key for key in node.keys if key is not None)
    elif isinstance(node, ast.Compare):
        yield from (node.left, *node.comparators)
    elif isinstance(node, ast.Subscript):
        yield node.slice


def _is_command(function: ast.FunctionDef) -> bool:
    """Whether click shows the function's docstring as a command's help."""
    called = [item.func if isinstance(item, ast.Call) else item for item in function.decorator_list]
    return any(isinstance(item, ast.Attribute) and item.attr in _COMMAND_DECORATORS for item in called)


def _f_string_text(node: ast.JoinedStr) -> str:
    """Return an f-string's text with each placeholder as the source has it, in braces."""
    parts = [
        str(part.value) if isinstance(part, ast.Constant) else f"{{{ast.unparse(part.value)}}}"
        for part in node.values
        if isinstance(part, ast.Constant | ast.FormattedValue)
    ]
    return "".join(parts)


def toml_sentences(source: str, file: Path) -> Iterator[Sentence]:
    """Yield the sentences among a TOML document's values, at the line where each begins."""
    lines = source.splitlines()
    for text in _strings_in(tomllib.loads(source)):
        if is_sentence(text):
            start = text.strip().splitlines()[0][:40]
            yield Sentence(file, next((n for n, line in enumerate(lines, 1) if start in line), 1), text)


def _strings_in(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _strings_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings_in(inner)


def template_sentences(source: str, file: Path) -> Iterator[Sentence]:
    """Yield the texts between the tags of a Jinja template."""
    for number, line in enumerate(source.splitlines(), 1):
        text = re.sub(r"<[^>]*>|\{%.*?%\}|\{#.*?#\}", " ", line)
        outside_placeholders = re.sub(r"\{\{.*?\}\}", "", text)
        if is_sentence(outside_placeholders):
            yield Sentence(file, number, text.strip())


def error_messages(sources: Iterable[str]) -> dict[str, str]:
    """Return the messages of the agent's error types that contain a text of the caller.

    Returns:
        `#[error("…")]` of each variant with a placeholder, by the variant's name in lower case and without
        underscores: `system` → `cannot {operation}: {reason}`.
    """
    variants = (match for source in sources for match in _ERROR_MESSAGE.finditer(source))
    return {match["variant"].lower(): match["message"] for match in variants if "{" in match["message"]}


def rust_sentences(source: str, file: Path, messages: Mapping[str, str] | None = None) -> Iterator[Sentence]:
    """Yield the sentences in a Rust file's string literals and command-line help, its unit tests left out.

    Args:
        source: Text of the file.
        file: Where it stands.
        messages: Messages that a literal completes (`error_messages`).
    """
    code = source.encode()
    root = Parser(_RUST).parse(code).root_node
    for line, help_text in _clap_help_texts(root):
        yield Sentence(file, line, help_text)
    for node in _rust_literals(root):
        literal = code[node.start_byte : node.end_byte].decode()
        text = _RUST_CONTINUATION.sub("", _RUST_QUOTES.sub("", literal))
        context = _called_function(node)
        if context == "expect" or not is_sentence(text):
            continue
        type_name, _, variant = context.rpartition("::")
        message = (messages or {}).get(variant.replace("_", "").lower(), "") if "Error" in type_name else ""
        if message:
            before, _, after = _FIRST_PLACEHOLDER.sub("\0", message, count=1).partition("\0")
            text, context = before + text + after, ""
        yield Sentence(file, node.start_point.row + 1, text, context)


def _called_function(node: Node) -> str:
    """Return what takes the literal, such as `Error::system`, also through `format!`."""
    while (parent := node.parent) is not None and parent.type in _TRANSPARENT:
        node = parent
    call = node.parent
    if call is not None and call.type == "field_initializer" and call.parent is not None:
        call = call.parent.parent
    field = {"call_expression": "function", "struct_expression": "name"}.get(call.type, "") if call else ""
    function = call.child_by_field_name(field) if call is not None and field else None
    name = (function.text or b"").decode() if function is not None else ""
    called = name.rpartition(".")[2]
    return "" if "\n" in called else called


def _test_modules(modules: Mapping[Path, str]) -> set[Path]:
    """Return the files of modules that another file declares for its unit tests alone."""
    return {
        file.with_name(f"{name}.rs")
        for file, source in modules.items()
        for name in re.findall(r"#\[cfg\(test\)\]\s*(?:pub(?:\(crate\))? )?mod (\w+);", source)
    }


def _rust_literals(node: Node) -> Iterator[Node]:
    tests_follow = False
    for child in node.children:
        if child.type == "attribute_item":
            tests_follow = tests_follow or b"test" in (child.text or b"")
            if _TEXT_ATTRIBUTE.match(child.text or b""):
                yield from _rust_literals(child)
            continue
        if child.type in ("string_literal", "raw_string_literal"):
            yield child
        elif not tests_follow and not _is_for_developers(child):
            yield from _rust_literals(child)
        if child.type not in ("line_comment", "block_comment"):
            tests_follow = False


def _clap_help_texts(node: Node, *, is_subcommand: bool = False) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each documentation comment that clap prints as help."""
    comments: list[Node] = []
    attributes = b""
    for child in node.children:
        if child.type == "attribute_item":
            attributes += child.text or b""
        elif child.type == "line_comment":
            comments.append(child)
        else:
            is_clap_item = _CLAP_ATTRIBUTE.search(attributes) is not None
            if comments and (is_clap_item or (is_subcommand and child.type == "enum_variant")):
                lines = [(comment.text or b"").decode().lstrip("/").strip() for comment in comments]
                yield comments[0].start_point.row + 1, " ".join(lines)
            is_enum = child.type == "enum_variant_list"
            yield from _clap_help_texts(
                child, is_subcommand=b"Subcommand" in attributes or (is_subcommand and is_enum)
            )
            comments, attributes = [], b""


def _is_for_developers(node: Node) -> bool:
    """Whether a macro's text reaches developers alone: assertions, and states that cannot be."""
    if node.type != "macro_invocation" or not node.children:
        return False
    name = (node.children[0].text or b"").decode()
    return name.startswith(("assert", "debug_assert", "unreachable", "panic"))


def is_sentence(text: str) -> bool:
    """Whether a literal is text for a person: some words, and neither SQL nor a path."""
    if _NOT_PROSE.match(text) or " " not in text.strip():
        return False
    fixed_text = re.sub(r"\{[^{}]*\}", "", text)
    words = _WORD.findall(fixed_text)
    return len(words) >= FEWEST_WORDS and sum(map(len, words)) >= len(fixed_text) / 2


def main() -> None:
    """Print the sentences by module, or how many each module has."""
    parser = argparse.ArgumentParser(description="Print every sentence that a user can see, by module.")
    parser.add_argument("--count", action="store_true", help="print only how many sentences each module has")
    options = parser.parse_args()
    by_file: dict[Path, list[Sentence]] = {}
    for sentence in user_sentences():
        by_file.setdefault(sentence.file, []).append(sentence)
    for file, sentences in by_file.items():
        name = file.relative_to(ROOT)
        if options.count:
            print(f"{len(sentences):5}  {name}")
            continue
        print(f"\n{name}")
        for sentence in sentences:
            context = f"[{sentence.context}] " if sentence.context else ""
            print(f"{sentence.line:5}  {context}{' '.join(sentence.text.split())}")
    print(f"\n{sum(map(len, by_file.values()))} sentences in {len(by_file)} modules")


if __name__ == "__main__":
    main()
