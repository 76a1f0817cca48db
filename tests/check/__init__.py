"""Tests of `vnetbench check`."""
