"""Creates, configures and removes the testbeds on which campaigns measure."""
