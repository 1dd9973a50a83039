"""Benchmarks: fixed settings, measured the same way every time."""
