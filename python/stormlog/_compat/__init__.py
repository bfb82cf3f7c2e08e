"""Code that exists only so that programs written for stormlog 0.3.9 run unchanged."""
