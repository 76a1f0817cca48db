"""Entry point of `python -m vnetbench`, also used when the bench restarts itself in a user namespace."""

from vnetbench.cli import main

main()
