"""The study file: its sections and keys, its parser, its JSON Schema and its reference page."""
