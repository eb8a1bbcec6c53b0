"""Registers the usage: its methods, and the check of budgets of `skerry doctor`."""

from skerry.policy.access import READERS
from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers the parts of the feature."""
    names = ("usage.cost", "usage.report", "usage.status")
    api.methods(dict.fromkeys(names, READERS), "methods:METHODS")
    names = ("sessions.usage", "sessions.usage.logs", "sessions.usage.timeseries")
    api.methods(dict.fromkeys(names, READERS), "session_methods:METHODS")
    api.status_check("checks:budgets")
