"""Lets a person add, list, order and remove the credentials of model providers."""
