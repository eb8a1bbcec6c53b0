"""Registers the methods and the command for skills, and the folder of bundled skills."""

from pathlib import Path

from skerry.policy.access import READERS
from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers the parts of the feature."""
    api.methods({"skills.status": READERS}, "methods:METHODS")
    api.check("checks:broken_skills")
    api.commands("commands:commands")
    api.register_skill_dir(Path(__file__).with_name("bundled"))
