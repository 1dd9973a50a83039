"""The decision service: an HTTP API over fleets, a durable log behind it, and a page that shows what was learned."""
