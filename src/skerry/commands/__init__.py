"""Commands that a person gives with a slash, which the gateway answers without a model."""
