"""Registers the pairing of senders: methods, events, and a check of `skerry doctor`."""

from skerry.policy.access import PAIRERS, READERS
from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers the parts of the feature."""
    names = (
        "channels.pairing.approve",
        "channels.pairing.list",
        "channels.pairing.reject",
        "channels.pairing.remove",
    )
    # Readers may see the codes: a code has no effect without the scope for decisions.
    needs = dict.fromkeys(names, PAIRERS) | {"channels.pairing.list": READERS}
    api.methods(needs, "methods:METHODS")
    api.event(
        "channels.pairing.requested",
        READERS,
        "A sender of a chat platform received a pairing code and waits for the owner.",
    )
    api.event(
        "channels.pairing.resolved",
        READERS,
        "The owner approved or rejected a sender, or removed a decision: `decision`.",
    )
    api.status_check("checks:waiting")
