"""Content of the session map `sessions.json`, in the format that other tools read."""

from typing import Any

from skerry.model.ids import AgentId
from skerry.model.session import SessionEntry
from skerry.store.session_listing import SessionFilter, recent
from skerry.store.unit import Reader


def built(reader: Reader, agents: set[AgentId]) -> dict[AgentId, dict[str, Any]]:
    """Returns the session map of each agent: its present sessions by key."""
    return {
        agent: {
            session.key: {
                "sessionId": session.session_id,
                "updatedAt": session.updated_at,
                "sessionFile": f"{session.session_id}.jsonl",
                "chatType": session.chat_type,
                **({"label": session.label} if session.label else {}),
                **session.settings.set_values(),
                "inputTokens": session.input_tokens,
                "outputTokens": session.output_tokens,
                "totalTokens": session.total_tokens,
                **_compaction(session),
                "abortedLastRun": bool(session.aborted_last_run),
                "modelProvider": session.provider,
                "model": session.model,
            }
            for session in recent(reader, SessionFilter(agent), limit=-1)
        }
        for agent in agents
    }


def _compaction(session: SessionEntry) -> dict[str, Any]:
    """Returns the fields about compactions and flushes; empty without any."""
    fields = {"compactionCount": session.compactions} if session.compactions else {}
    if session.flushed_at:
        fields["memoryFlushAt"] = session.flushed_at
        fields["memoryFlushCompactionCount"] = session.flushed
    return fields
