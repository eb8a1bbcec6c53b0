"""Counts usage and cost of model calls."""
