"""vnetbench: the test bench for virtual networks."""

__version__ = "0.1.0"
