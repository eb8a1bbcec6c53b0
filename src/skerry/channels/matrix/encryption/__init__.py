"""End-to-end encryption of Matrix: devices, their keys, and the sessions of rooms."""
