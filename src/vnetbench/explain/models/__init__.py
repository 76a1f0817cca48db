"""Throughput models, each with its source. Explanations compare measurements with them."""
