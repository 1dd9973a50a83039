"""The laboratory: benchmarks, the paper's experiments, its theory and the datasets.

Nothing in the library imports it.
"""
