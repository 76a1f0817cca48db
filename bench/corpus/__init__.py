"""The corpus: runs with a known cause, and runs without a fault, which score the explanations."""
