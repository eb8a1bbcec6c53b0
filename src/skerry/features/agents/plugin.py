"""Registers the methods that change agents and the files of their workspaces."""

from skerry.policy.access import ADMINS, READERS
from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers what the feature consists of."""
    changes = {"agents.create": ADMINS, "agents.delete": ADMINS, "agents.update": ADMINS}
    api.methods(changes, "change_methods:METHODS")
    files = {
        "agents.files.get": READERS,
        "agents.files.list": READERS,
        "agents.files.set": ADMINS,
    }
    api.methods(files, "file_methods:METHODS")
