"""Interventions: small changes of one resource at a time, and how much each changes the result."""
