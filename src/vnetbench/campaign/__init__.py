"""Run campaigns: trials, their checks, schedule and progress."""
