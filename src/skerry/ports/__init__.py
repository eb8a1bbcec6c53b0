"""What the core asks of the outside, as protocols."""
