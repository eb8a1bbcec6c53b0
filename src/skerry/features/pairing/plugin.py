"""Registers the pairing of senders: methods, events, and what `skerry doctor` says of it."""

from skerry.policy.access import PAIRERS, READERS
from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers what the feature consists of."""
    names = (
        "channels.pairing.approve",
        "channels.pairing.list",
        "channels.pairing.reject",
        "channels.pairing.remove",
    )
    # Who only reads may see who waits: a code lets nobody in without the scope for deciding.
    needs = dict.fromkeys(names, PAIRERS) | {"channels.pairing.list": READERS}
    api.methods(needs, "methods:METHODS")
    api.event(
        "channels.pairing.requested",
        READERS,
        "A sender of a chat platform got a pairing code and waits for the owner.",
    )
    api.event(
        "channels.pairing.resolved",
        READERS,
        "The owner approved or rejected a sender, or took a decision back: `decision`.",
    )
    api.status_check("checks:waiting")
