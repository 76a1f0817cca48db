"""What the labs that change existing VMs share: testbeds, and a journal of the original settings."""
