"""Registers the approvals: methods, events, the service that notifies people."""

from skerry.policy.access import ADMINS, APPROVERS
from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers the parts of the feature."""
    needs = {
        "exec.approval.get": APPROVERS,
        "exec.approval.list": APPROVERS,
        "exec.approval.request": APPROVERS,
        "exec.approval.waitDecision": APPROVERS,
    }
    api.methods(needs, "methods:METHODS")
    allowlist = {
        "exec.allowlist.add": ADMINS,
        "exec.allowlist.list": APPROVERS,
        "exec.allowlist.remove": APPROVERS,
        "exec.approvals.get": ADMINS,
        "exec.approvals.set": ADMINS,
    }
    api.methods(allowlist, "allowlist_methods:METHODS")
    api.event(
        "exec.approval.requested", APPROVERS, "A tool call waits for the approval of a person."
    )
    api.event(
        "exec.approval.resolved",
        APPROVERS,
        "An approval was answered, or has expired: `decision` is null then.",
    )
    api.commands("chat_commands:commands")
    api.service("service:run")
