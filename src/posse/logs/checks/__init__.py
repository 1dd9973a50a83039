"""The checks of a log, grouped by what they look at; :func:`posse.logs.check_log` runs them all."""
