"""Checks of a study whose single values are valid."""
