"""Feature `subagents`: agents that another agent starts for a task, and their reports."""
