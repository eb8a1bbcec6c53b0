"""Feature `approvals`: asks people about tool calls, through clients, chats and commands."""
