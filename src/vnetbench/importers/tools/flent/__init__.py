"""Read Flent's files (`.flent`, `.flent.gz`): a JSON document of a run with the series of all its tools."""

from vnetbench.importers.reader import DocumentReader
from vnetbench.importers.tools.flent.document import is_flent_document, read_runs_of_document

READERS = (DocumentReader("flent", "json", is_flent_document, read_runs_of_document),)
