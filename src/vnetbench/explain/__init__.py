"""Explanations: causes that limit treatments, differences between treatments, and doubts about results."""
