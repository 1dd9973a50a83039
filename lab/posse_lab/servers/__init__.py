"""Servers that benchmarks and tests start, and clients that ask them."""
