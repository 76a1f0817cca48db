"""Events that disrupt the network of a testbed during a trial, one module each."""
