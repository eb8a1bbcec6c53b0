"""Shows which models there are and which answers, and chooses one."""
