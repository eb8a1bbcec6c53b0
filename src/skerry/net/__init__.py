"""HTTP client for URLs that a model or a stranger chose: network policy, resolver, connections."""
