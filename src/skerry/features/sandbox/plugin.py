"""Registers the sandboxes in the slot `sandbox`, and their check for `skerry doctor`."""

from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers the parts of the feature."""
    api.open_slot("sandbox", "open_sandbox:open_sandbox")
    api.check("checks:usable")
