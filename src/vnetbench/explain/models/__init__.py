"""Laws of throughput, each by itself with its source: what an explanation holds measurements against."""
