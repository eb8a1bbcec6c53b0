"""Registers webhooks: the route `/hooks/`, their methods, and a check of the doctor."""

from skerry.policy.access import READERS
from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers the parts of the feature."""
    needs = {"webhooks.list": READERS, "webhooks.test": READERS}
    api.methods(needs, "methods:METHODS")
    api.http_prefix("/hooks", "routes:make")
    api.check("checks:keys")
