"""Studies: data model, study file, factors, rules and plan."""
