"""Registers cron: its methods, the scheduler, the tool, and checks of `skerry doctor`."""

from skerry.policy.access import ADMINS, READERS
from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers the parts of the feature."""
    needs = {
        "cron.add": ADMINS,
        "cron.get": READERS,
        "cron.list": READERS,
        "cron.remove": ADMINS,
        "cron.run": ADMINS,
        "cron.runs": READERS,
        "cron.status": READERS,
        "cron.update": ADMINS,
    }
    api.methods(needs, "methods:METHODS")
    api.event("cron", READERS, "A job was added, updated or removed, or its run began or ended.")
    api.tools("tool:make")
    api.service("service:run")
    api.check("checks:webhook_token")
    api.importer("job_import:JobImporter")
