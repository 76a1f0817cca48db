"""Exports of a campaign: JSON, CSV and Markdown."""
