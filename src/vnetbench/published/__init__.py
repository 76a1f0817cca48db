"""Published tables and statements, shipped as data."""
