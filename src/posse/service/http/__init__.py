"""The service over HTTP: the application, what every request passes, and its routes."""
