"""Texts for factors, levels, treatments and estimates, shared by reports and findings."""
