"""Team policies: which uplink each flow takes, computed without privilege and without traffic."""
