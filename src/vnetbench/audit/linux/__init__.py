"""Collectors of Linux machines, local or over SSH."""
