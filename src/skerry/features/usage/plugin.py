"""Registers the usage: its methods and what `skerry doctor` says of the budgets."""

from skerry.policy.access import READERS
from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers what the feature consists of."""
    names = ("usage.cost", "usage.report", "usage.status")
    api.methods(dict.fromkeys(names, READERS), "methods:METHODS")
    names = ("sessions.usage", "sessions.usage.logs", "sessions.usage.timeseries")
    api.methods(dict.fromkeys(names, READERS), "session_methods:METHODS")
    api.status_check("checks:budgets")
