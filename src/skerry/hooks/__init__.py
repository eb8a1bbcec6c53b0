"""The points at which plugins watch or change a message on its way, and the runner of handlers."""
