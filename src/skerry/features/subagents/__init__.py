"""Feature `subagents`: agents that an agent starts for a task, and whose reports return to it."""
