"""The soak test: one long campaign, killed and disturbed at random, that must lose and leave nothing."""
