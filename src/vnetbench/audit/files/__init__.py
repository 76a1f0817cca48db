"""Readers of files that describe VMs and hosts."""
