"""Team policies, one module a family; `registry` finds them by name."""
