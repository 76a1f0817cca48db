"""Runs with a cause put there on purpose, and runs with nothing wrong: what explanations are judged by."""
