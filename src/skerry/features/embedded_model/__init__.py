"""The embedded model: runs a model file on this machine, in a child process."""
