"""Retention of conversations: a pure decision, executed one session at a time.

Source: openclaw-behaviour 2.4, `session.maintenance`. Unused sessions are archived and can be
restored; sessions that were archived long ago are removed.
"""

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from skerry.config.session import MaintenanceConfig
from skerry.config.webhooks import WebhooksConfig
from skerry.hooks.hooks import Hooks
from skerry.infra.clock import DAY_MS
from skerry.model.errors import StoreFailedError
from skerry.model.ids import SessionKey, SessionKind
from skerry.sessions import session_hooks
from skerry.store import Store, retention
from skerry.store.retention import RetainedSession

logger = logging.getLogger(__name__)

PRUNE: Final = "prune"
"""Reason for the end of a session that retention archived."""


@dataclass(frozen=True, slots=True)
class DueSession:
    """A session that exceeds a limit."""

    session: RetainedSession
    reason: str


@dataclass(frozen=True, slots=True)
class RetentionPlan:
    """Sessions that exceed the limits."""

    archive: tuple[DueSession, ...] = ()
    remove: tuple[DueSession, ...] = ()

    @property
    def size(self) -> int:
        """Returns the total bytes of the transcripts to remove."""
        return sum(due.session.size for due in self.remove)


def plan(stored: Sequence[RetainedSession], config: MaintenanceConfig, now: int) -> RetentionPlan:
    """Returns the sessions that exceed the limits; `stored` has the least recently used first.

    Main and pinned conversations, and those with an open run, are never archived. A session is
    never archived and removed in the same pass, so that it can be restored until the next one.
    """
    before, days = now - config.prune_after, config.prune_after / DAY_MS
    present = [session for session in stored if not session.archived_at]
    archived = sorted(
        (session for session in stored if session.archived_at),
        key=lambda session: (session.archived_at, session.session_id),
    )
    counts = Counter(session.agent_id for session in present)
    away: list[DueSession] = []
    for session in present:
        if session.pinned or session.busy or _stays(session.key):
            continue
        if session.updated_at < before:
            away.append(DueSession(session, f"unused for {days:g} days"))
        elif counts[session.agent_id] > config.max_entries:
            away.append(
                DueSession(session, f"over {config.max_entries} conversations of the agent")
            )
        else:
            continue
        counts[session.agent_id] -= 1
    removed = [
        DueSession(session, f"archived for {days:g} days")
        for session in archived
        if session.archived_at < before
    ]
    if config.max_disk_bytes is not None:
        size = sum(session.size for session in stored) - sum(due.session.size for due in removed)
        for session in archived[len(removed) :]:
            if size <= config.max_disk_bytes:
                break
            removed.append(
                DueSession(session, "transcripts take more than session.maintenance.maxDiskBytes")
            )
            size -= session.size
    return RetentionPlan(tuple(away), tuple(removed))


def plan_one_off(
    stored: Sequence[RetainedSession], hooks: WebhooksConfig, prune_after: int, now: int
) -> RetentionPlan:
    """Returns the sessions of webhook posts and sub-agents that are due, in any mode.

    Each post and each sub-agent begins a session, so that these would grow without end. Those of
    posts have the limits of `hooks`; those of sub-agents were archived when they ended, and are
    removed after `prune_after`. Sessions in which a person wrote are left to `plan`. `stored` has
    the least recently used first.
    """
    posts = _posts(stored, hooks, now)
    ended = [
        DueSession(session, "conversation of a sub-agent")
        for session in stored
        if 0 < session.archived_at < now - prune_after and _is_left(session, SessionKind.SUBAGENT)
    ]
    return RetentionPlan(
        tuple(due for due in posts if not due.session.archived_at),
        (*(due for due in posts if due.session.archived_at), *ended),
    )


def _posts(stored: Sequence[RetainedSession], hooks: WebhooksConfig, now: int) -> list[DueSession]:
    own = [session for session in stored if _is_left(session, SessionKind.HOOK)]
    before, excess = now - hooks.session_retention, len(own) - hooks.keep_sessions
    return [
        DueSession(session, "conversation of a webhook post")
        for number, session in enumerate(own)
        if number < excess or session.updated_at < before
    ]


def _is_left(session: RetainedSession, kind: SessionKind) -> bool:
    """Returns whether a session is of this kind, and nobody uses it."""
    used = session.person_wrote or session.pinned or session.busy
    return not used and SessionKey.parse(session.key).kind is kind


def _stays(key: str) -> bool:
    parsed = SessionKey.parse(key)
    return parsed.kind is SessionKind.MAIN or parsed.scope == ("global",)


async def carry_out(
    store: Store,
    hooks: Hooks,
    agents_dir: Path,
    planned: RetentionPlan,
    now: int,
    *,
    wipes: bool = True,
) -> RetentionPlan:
    """Archives and removes the planned sessions; returns those that were not used meanwhile.

    `wipes` also removes the text of removed sessions from unused pages; it rewrites the database.
    """
    away, removed = [], []
    for due in planned.archive:
        session = await store.write(partial(retention.archive_unused, session=due.session, now=now))
        if session is not None:
            away.append(due)
            session_hooks.ended(hooks, session, PRUNE)
    for due in planned.remove:
        session_id = due.session.session_id
        await store.read(
            partial(retention.remove_file, agents_dir=agents_dir, session_id=session_id)
        )
        if await store.write(partial(retention.remove, session_id=session_id)):
            removed.append(due)
    if removed and wipes:
        try:
            await retention.wipe(store)
        except StoreFailedError as error:
            logger.warning("removed text may remain in unused pages of the database: %s", error)
    return RetentionPlan(tuple(away), tuple(removed))


def summary(due: RetentionPlan, *, completed: bool) -> str:
    """Returns a line for the log."""
    text = (
        f"{len(due.archive)} conversations {'were' if completed else 'would be'} archived,"
        f" {len(due.remove)} archived ones ({due.size // 1024} KiB) removed"
    )
    if completed:
        return f"session.maintenance: {text}"
    return (
        f"over the limits of session.maintenance: {text}. `skerry sessions prune --dry-run` lists"
        " them; mode enforce archives and removes them"
    )
