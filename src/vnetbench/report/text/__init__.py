"""Sentences about a campaign: answer, narrative, notes, method and evidence."""
