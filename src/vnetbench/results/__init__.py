"""Read and write results files."""
