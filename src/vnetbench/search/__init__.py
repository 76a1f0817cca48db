"""Search of throughputs, independent of where the counts come from."""
