"""Lists the machines that serve the gateway, and lets them run commands."""
