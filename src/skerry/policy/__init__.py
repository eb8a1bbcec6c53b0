"""Access decisions on methods, commands, events, tools, files and memory."""
