"""The key server: a process that has the private keys and judges who may open a text."""
