"""Flows that other programs saw: packet captures and the socket list of `ss`."""
