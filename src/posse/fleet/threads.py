"""Threads that compiled work is spread over: those of the whole package."""

from posse.threads import MANY_ROWS, pool, workers

__all__ = ["MANY_ROWS", "pool", "workers"]
