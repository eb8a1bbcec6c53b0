"""iMessage: the REST API of a BlueBubbles server on a Mac."""
