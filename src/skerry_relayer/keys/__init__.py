"""Key server: a process with the private keys, which decides which requests may open a text."""
