"""Read the logs of other tools and import their runs as trials."""
