"""The WebSocket and HTTP control plane."""
