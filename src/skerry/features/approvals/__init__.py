"""Asks people about tool calls: gateway methods and events, the command line, chats, doctor."""
