"""Registers the models: their methods, commands, and checks of `skerry doctor`."""

from skerry.policy.access import ADMINS, READERS
from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers the parts of the feature."""
    needs = {
        "models.configure": ADMINS,
        "models.offered": ADMINS,
        "models.status": READERS,
        "models.trust": ADMINS,
        "models.use": ADMINS,
    }
    api.methods(needs, "methods:METHODS")
    api.check("checks:answering")
    api.commands("commands:commands")
