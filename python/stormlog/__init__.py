"""Stormlog: a flight recorder for accelerator memory in machine-learning training."""
