"""Red-team corpus: causes injected from outside the bench, to score its explanations."""
