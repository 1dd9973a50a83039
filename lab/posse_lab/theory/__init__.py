"""What the paper proves, computable: every statement as printed, and as it can be proved."""
