"""NTttcp for Windows and ntttcp for Linux: their text, XML and JSON, of senders and receivers."""

from __future__ import annotations

from vnetbench.importers.ntttcp import documents, linux, windows

READERS = (*windows.READERS, *linux.READERS, *documents.READERS)
