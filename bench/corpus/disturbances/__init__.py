"""Disturbances of a running testbed. Each is a context that undoes itself."""
