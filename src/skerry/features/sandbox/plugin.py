"""Registers the sandboxes: they hold the slot `sandbox`, and `skerry doctor` tests them."""

from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers what the feature consists of."""
    api.open_slot("sandbox", "open_sandbox:open_sandbox")
    api.check("checks:usable")
