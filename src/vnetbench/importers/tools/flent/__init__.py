"""Flent's files (`.flent`, `.flent.gz`): a JSON document of a run, with the series of all tools in it."""

from vnetbench.importers.reader import DocumentReader
from vnetbench.importers.tools.flent.document import claims, read

READERS = (DocumentReader("flent", "json", claims, read),)
