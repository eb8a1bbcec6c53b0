"""The points at which plugins watch or change the way of a message, and how handlers run."""
