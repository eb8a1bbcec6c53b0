"""Registers the methods with empty responses."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from skerry.policy.access import ADMINS, APPROVERS, QUESTIONERS, READERS, Need
from skerry.sdk.features import FeatureApi

POLLED: Final[Mapping[str, Need]] = MappingProxyType(
    {
        "approval.history": APPROVERS,
        "artifacts.list": READERS,
        "environments.list": READERS,
        "exec.approval.grants.list": APPROVERS,
        "migrations.memory.plan": ADMINS,
        "models.authStatus": READERS,
        "openclaw.approval.list": APPROVERS,
        "plugin.approval.list": APPROVERS,
        "plugins.catalog.browse": READERS,
        "progressCard.get": READERS,
        "projects.list": READERS,
        "question.list": QUESTIONERS,
        "sessions.branches.list": READERS,
        "sessions.companion.state": READERS,
        "sessions.observer.visibility": READERS,
        "skills.library.list": READERS,
        "skills.proposals.list": READERS,
        "skills.search": READERS,
        "talk.catalog": READERS,
        "tasks.list": READERS,
        "themes.list": READERS,
        "transcripts.list": READERS,
        "update.status": ADMINS,
        "users.list": READERS,
        "worktrees.list": READERS,
    }
)
"""Methods that pages call even when `hello-ok` does not list them."""


def register(api: FeatureApi) -> None:
    """Registers the parts of the feature."""
    api.methods(POLLED, "methods:METHODS", named=False)
