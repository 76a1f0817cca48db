"""What the labs that change existing VMs share: a journal of the original settings."""
