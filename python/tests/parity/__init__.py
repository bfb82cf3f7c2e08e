"""Random cases, run by this package and by stormlog 0.3.9, and their comparison."""
