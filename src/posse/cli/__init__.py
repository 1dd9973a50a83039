"""The command line: ``posse``."""
