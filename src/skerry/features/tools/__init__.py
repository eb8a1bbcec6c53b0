"""Feature `tools`: lists the tools of an agent, with the deciding rule of each."""
