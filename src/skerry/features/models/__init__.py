"""Feature `models`: lists the models, shows the answering one, and chooses one."""
