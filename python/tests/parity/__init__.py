"""Random cases, run by this package and by the reference, and their comparison."""
