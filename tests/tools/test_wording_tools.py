"""The tools that list user-facing sentences and draw samples of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.user_sentences import (
    PACKAGE,
    error_messages,
    is_sentence,
    parameter_names,
    python_sentences,
    rust_sentences,
    template_sentences,
    toml_sentences,
    user_sentences,
)
from tools.wording_sample import python_identifiers, rust_identifiers

pytestmark = pytest.mark.pure

FILE = Path("any.file")

PYTHON = '''
"""Module docstring that no user sees."""

@main.command("show")
def show() -> None:
    """Print the estimates of a results file."""
    key = "two words"
    raise BenchError(f"cannot open {path.name}: the file is empty", fix="name a file with results")

def helper() -> None:
    """Do something that only developers read about."""
    re.compile("some words in a pattern")
    query = "SELECT one or more rows from a table"
'''

RUST = """
#[derive(Error)]
enum Failure {
    #[error("cannot open the interface {name}")]
    Open { name: String },
}
fn refuse() -> Result<()> {
    assert!(ready, "only developers read this text");
    Err(refused(format!("the link {link} has no carrier")))
}
fn attach() -> Result<()> {
    program.load().expect("developers read this text");
    let first = ports
        .first()
        .expect("developers read this text too");
    Err(Error::system(format!("attach a program to {port}"), errno))
}
#[cfg(test)]
mod tests {
    fn look() { expect("a sentence in a unit test"); }
}
"""


def test_sentences_of_python_are_messages_and_help_texts_with_their_placeholders() -> None:
    parameters = parameter_names(["class BenchError(Exception):\n    what: str\n    fix: str = ''\n"])
    found = [(each.line, each.context, each.text) for each in python_sentences(PYTHON, FILE, parameters)]
    assert found == [
        (5, "", "Print the estimates of a results file."),
        (8, "BenchError.what", "cannot open {path.name}: the file is empty"),
        (8, "BenchError.fix", "name a file with results"),
    ]


def test_a_text_comes_with_the_unit_of_its_metric() -> None:
    source = 'Metric("retransmits_per_s", "% of one CPU", "Retransmits", "segments that were sent again")\n'
    parameters = parameter_names(
        ["class Metric:\n    name: str\n    unit: str\n    label: str\n    meaning: str\n"]
    )
    found = [(each.context, each.text) for each in python_sentences(source, FILE, parameters)]
    assert found == [("Metric.meaning, unit % of one CPU", "segments that were sent again")]


def test_texts_that_a_program_compares_or_passes_on_are_no_sentences() -> None:
    constants = (
        '_START_HINTS = ("Connecting to the host", "Accepted a connection from")\n'
        'FONT = "Inter, Liberation Sans, Arial"\n'
        'REMARK = "The log contains no time zone."\n'
        '_TITLES = {"size": "Average Frame Size"}\n'
    )
    texts = {each.text for each in python_sentences(constants, FILE)}
    assert texts == {"The log contains no time zone.", "Average Frame Size"}
    importer = PACKAGE / "importers" / "tools" / "tool.py"
    assert {each.text for each in python_sentences(constants, importer)} == {"The log contains no time zone."}


def test_sentences_of_rust_contain_the_help_of_the_command_line() -> None:
    rust = """\
/// Run one short test.
#[derive(Debug, Args)]
#[command(after_help = "K and M are powers of 1024.")]
struct Options {
    /// Port of the server.
    #[arg(short)]
    port: u16,
    /// No help of any option.
    count: u16,
}
/// No help of any command.
struct Other;
#[derive(Subcommand)]
enum Command {
    /// Read requests from the input.
    Stdio {
        /// Remove the folder at the end.
        #[arg(long)]
        folder: PathBuf,
    },
}
"""
    assert {(sentence.line, sentence.text) for sentence in rust_sentences(rust, FILE)} == {
        (1, "Run one short test."),
        (3, "K and M are powers of 1024."),
        (5, "Port of the server."),
        (15, "Read requests from the input."),
        (17, "Remove the folder at the end."),
    }


def test_sentences_of_rust_are_literals_outside_of_tests_and_assertions() -> None:
    messages = error_messages(
        ['#[error("cannot {operation}: {reason}")]\n/// A system call failed.\nSystem {']
    )
    found = [(sentence.line, sentence.text) for sentence in rust_sentences(RUST, FILE, messages)]
    assert found == [
        (4, "cannot open the interface {name}"),
        (9, "the link {link} has no carrier"),
        (16, "cannot attach a program to {port}: {reason}"),
    ]


def test_sentences_of_toml_and_templates_have_their_lines() -> None:
    toml = '[cause]\nid = "small_messages"\nadvice = "Hand the kernel more data with each call."\n'
    assert [(s.line, s.text) for s in toml_sentences(toml, FILE)] == [
        (3, "Hand the kernel more data with each call.")
    ]
    page = "<p>{{ title }}</p>\n<p>Click a heading to sort the table.</p>\n"
    assert [(s.line, s.text) for s in template_sentences(page, FILE)] == [
        (2, "Click a heading to sort the table.")
    ]


@pytest.mark.parametrize(
    "text",
    [
        "goodput_bps",
        "two words",
        "SELECT a FROM the trials",
        "{a} / {b} = {c}",
        "split(datum.estimate text, with a separator)",
        "for folder in the home folders; do echo $(id -u)",
    ],
)
def test_labels_queries_and_expressions_are_no_sentences(text: str) -> None:
    assert not is_sentence(text)


def test_every_part_of_the_product_has_sentences() -> None:
    suffixes = {sentence.file.suffix for sentence in user_sentences()}
    assert suffixes == {".py", ".toml", ".j2", ".rs"}


def test_identifiers_come_with_their_signatures() -> None:
    source = (
        "MOST = 4\n"
        "class Trial:\n"
        "    seed: int\n"
        "    @property\n"
        "    def end_s(self) -> float: ...\n"
        "    def run(self, load: float) -> Result: ...\n"
    )
    assert list(python_identifiers(source, "campaign")) == [
        "campaign: MOST = 4",
        "campaign: class Trial { seed }",
        "campaign.Trial: seed: int",
        "campaign.Trial: @property def end_s(self) -> float",
        "campaign.Trial: def run(self, load: float) -> Result",
    ]
    rust = "impl Port {\n    pub fn open(name: &str) -> Result<Port> { todo() }\n}\nconst WORDS: u32 = 4;\n"
    assert list(rust_identifiers(rust, "port.rs")) == [
        "port.rs::Port: pub fn open(name: &str) -> Result<Port>",
        "port.rs: const WORDS: u32 = 4;",
    ]
