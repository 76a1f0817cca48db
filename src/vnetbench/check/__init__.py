"""The check of a path: what it measures, what limits it, and what to do (docs/check.md)."""
