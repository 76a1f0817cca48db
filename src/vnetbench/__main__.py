"""`python -m vnetbench`: the command, also for the case that it starts itself again in a user namespace."""

from vnetbench.cli import main

main()
