"""Read NTttcp for Windows and ntttcp for Linux: text, XML and JSON, of senders and receivers."""

from __future__ import annotations

from vnetbench.importers.tools.ntttcp import documents, linux_text, windows_text

READERS = (*windows_text.READERS, *linux_text.READERS, *documents.READERS)
