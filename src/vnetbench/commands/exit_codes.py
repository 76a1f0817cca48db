"""Exit codes of the commands other than 0."""

from __future__ import annotations

NOTHING_MEASURED = 1
BAD_INPUT = 2
COMPARISON_WORSE = 3
INPUT_PARTLY_READ = 4
AUDIT_FOUND = 5
INTERRUPTED = 130
