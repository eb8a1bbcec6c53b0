"""Public fakes: a scripted model, a memory channel, a fake clock, a whole gateway."""
