"""Findings from comparisons of treatments, and of trials of one treatment."""
