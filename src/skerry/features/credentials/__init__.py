"""Feature `credentials`: adds, lists, orders and removes credentials of model providers."""
