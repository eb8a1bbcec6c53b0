"""Registers the methods that answer with nothing."""

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
"""Methods that pages ask for without looking whether there are some."""


def register(api: FeatureApi) -> None:
    """Registers what the feature consists of."""
    api.methods(POLLED, "methods:METHODS", named=False)
