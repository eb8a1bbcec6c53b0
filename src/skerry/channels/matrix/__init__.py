"""Matrix: the client-server API of a homeserver over HTTPS."""
