"""Charts as Vega-Lite specifications and image files."""
