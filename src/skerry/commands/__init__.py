"""Commands such as `/status`, which the gateway answers without a model."""
