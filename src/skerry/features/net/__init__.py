"""Feature `net`: checks and fetches addresses from the command line, like the tools of agents."""
