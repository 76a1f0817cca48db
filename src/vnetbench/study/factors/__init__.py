"""Factors of a study: what each one is, its levels and its limits."""
