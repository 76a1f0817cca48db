"""Audit: settings of machines, VMs and switches, read and judged without load (docs/audit.md)."""
