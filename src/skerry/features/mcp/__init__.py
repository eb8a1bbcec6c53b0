"""Tools of servers of the Model Context Protocol (MCP)."""
