"""Statistics: from the counters of a results file to metrics, intervals, comparisons and evidence."""
