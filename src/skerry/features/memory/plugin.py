"""Registers the memory: methods, the slot with its tools and commands, and checks."""

from typing import Final

from skerry.policy.access import ADMINS, READERS, WRITERS
from skerry.sdk.features import FeatureApi

NEEDS: Final = {
    "memory.confirm": WRITERS,
    "memory.file": READERS,
    "memory.files": READERS,
    "memory.forget": ADMINS,
    "memory.get": READERS,
    "memory.notes": READERS,
    "memory.save": WRITERS,
    "memory.search": READERS,
    "memory.status": READERS,
    "memory.sync": WRITERS,
    "memory.undo": WRITERS,
    "memory.unverified": READERS,
    "memory.write": WRITERS,
}


def register(api: FeatureApi) -> None:
    """Registers the parts of the feature."""
    api.methods(NEEDS, "methods:METHODS")
    api.open_slot("memory", "assembly:open_memory")
    api.check("checks:examine")
    api.call("memory.sync", "cli_access:sync_with_progress")
