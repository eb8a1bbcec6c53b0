"""Discord: the gateway's WebSocket and the HTTP API."""
