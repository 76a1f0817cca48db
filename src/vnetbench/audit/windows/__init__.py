"""The audit of Windows guests: a script that the user runs, and the reader of its JSON."""
