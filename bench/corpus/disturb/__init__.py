"""What can be made wrong on a living testbed, each a context that undoes itself."""
