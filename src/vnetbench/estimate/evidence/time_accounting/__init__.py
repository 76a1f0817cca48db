"""Time accounting: what a stream or a request spends its time on, as shares that add up to 1."""
