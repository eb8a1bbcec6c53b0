"""Decides who may do what: methods, commands, events, tools, files and memory."""
