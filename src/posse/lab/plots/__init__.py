"""Pictures of what the laboratory measured."""
