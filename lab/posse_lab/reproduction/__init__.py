"""Reproduction of the paper: every figure and claim, from runs that leave result files."""
