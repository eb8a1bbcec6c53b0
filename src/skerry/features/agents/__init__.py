"""Creates, changes and deletes agents, and edits the files that their prompts read."""
