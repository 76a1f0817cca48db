"""Tables of estimates, comparisons and published values."""
