"""Feature `nodes`: lists the machines that serve the gateway, and runs commands on them."""
