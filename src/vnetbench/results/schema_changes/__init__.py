"""Changes between schema versions of the results file, one module for each version."""
