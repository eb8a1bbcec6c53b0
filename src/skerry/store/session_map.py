"""The session map of the seeds, `sessions.json`: what it says of each conversation."""

from typing import Any

from skerry.model.ids import AgentId
from skerry.model.session import SessionEntry
from skerry.store.listing import Wanted, recent
from skerry.store.unit import Reader


def built(reader: Reader, agents: set[AgentId]) -> dict[AgentId, dict[str, Any]]:
    """Returns the session map of each agent: its present sessions by key."""
    return {
        agent: {
            one.key: {
                "sessionId": one.session_id,
                "updatedAt": one.updated_at,
                "sessionFile": f"{one.session_id}.jsonl",
                "chatType": one.chat_type,
                **({"label": one.label} if one.label else {}),
                **one.settings.shown(),
                "inputTokens": one.input_tokens,
                "outputTokens": one.output_tokens,
                "totalTokens": one.total_tokens,
                **_compaction(one),
                "abortedLastRun": bool(one.aborted_last_run),
                "modelProvider": one.provider,
                "model": one.model,
            }
            for one in recent(reader, Wanted(agent), limit=-1)
        }
        for agent in agents
    }


def _compaction(session: SessionEntry) -> dict[str, Any]:
    """Returns how far the session is compacted, where it is."""
    found = {"compactionCount": session.compactions} if session.compactions else {}
    if session.flushed_at:
        found["memoryFlushAt"] = session.flushed_at
        found["memoryFlushCompactionCount"] = session.flushed
    return found
