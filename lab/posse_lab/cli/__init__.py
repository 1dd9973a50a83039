"""``posse lab``, one file per command."""
