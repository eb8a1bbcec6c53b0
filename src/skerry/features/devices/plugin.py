"""Registers the devices: their methods, and their check of `skerry doctor`."""

from skerry.policy.access import PAIRERS
from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers the parts of the feature."""
    names = (
        "device.pair.approve",
        "device.pair.list",
        "device.pair.reject",
        "device.pair.remove",
        "device.token.revoke",
        "device.token.rotate",
        "node.pair.approve",
        "node.pair.list",
        "node.pair.reject",
        "node.pair.remove",
    )
    api.methods(dict.fromkeys(names, PAIRERS), "methods:METHODS")
    api.status_check("checks:waiting")
