"""Commands: thin, over `client` and `app`."""
