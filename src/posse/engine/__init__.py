"""Many hierarchical posteriors that decide, learn and refresh, on numbers and arrays: no names, no locks, no files."""
