"""Lists the programs that run at events, and switches them on and off."""
