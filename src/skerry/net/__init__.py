"""The one way out for addresses that a model or a stranger chose: policy, resolver, client."""
