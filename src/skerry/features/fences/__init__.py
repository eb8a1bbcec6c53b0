"""Lists the files that a prompt includes as data only, and lets a person trust them."""
