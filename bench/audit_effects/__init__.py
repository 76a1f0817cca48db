"""How much the faults that audit rules find change the goodput: measured with and without each fault."""
