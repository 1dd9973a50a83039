"""Many related contextual bandits that learn from each other."""
