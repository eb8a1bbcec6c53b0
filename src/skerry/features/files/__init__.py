"""Feature `files`: the tools that read and change files of a workspace."""
