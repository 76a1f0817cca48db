"""Flent's files (`.flent`, `.flent.gz`): a JSON document of a run, with the series of all tools in it."""

from vnetbench.importers.flent.document import claims, read
from vnetbench.importers.reader import DocumentReader

READERS = (DocumentReader("flent", "json", claims, read),)
