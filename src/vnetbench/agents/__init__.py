"""Reaches the agents: locates and starts them, and speaks their protocol."""
