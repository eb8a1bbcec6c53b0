"""Sessions as the protocol sends them: a row of a list, and an entry of the session map."""

from pathlib import Path

from skerry.gateway.context import GatewayContext
from skerry.gateway.frames import Json
from skerry.model.ids import SessionKey
from skerry.model.session import SessionEntry
from skerry.model.thinking import ThinkingLevel, nearest
from skerry.ports.model import ModelInfo
from skerry.store.mirror import transcript_file

GLOBAL_SCOPES = ("global", "unknown")
"""Names of conversations that belong to no person; lists leave them out unless asked."""


def row(
    session: SessionEntry, protocol: int, model: ModelInfo | None = None, **extra: Json
) -> dict[str, Json]:
    """Returns a session as `sessions.list` shows it to a client of `protocol`.

    `model` is the present model; its context window is included if the session used it last.
    """
    key = SessionKey.parse(session.key)
    fields: dict[str, Json] = {
        "key": session.key,
        "kind": _kind(session, key),
        "displayName": ":".join(key.scope),
        "chatType": session.chat_type,
        **_state(session),
        **_overrides(session),
    }
    if model is not None and (model.provider, model.id) == (session.provider, session.model):
        fields["contextTokens"] = model.context_window
    if protocol > 3:  # noqa: PLR2004 - the version of the protocol
        fields |= {
            "agentId": session.agent_id,
            "isMain": is_main(key),
            "createdAt": session.created_at,
            "archived": session.archived is not None,
            "pinned": session.settings.pinned,
            "unread": session.settings.unread,
            "lastActivityAt": session.updated_at,
        }
        if session.archived is not None:
            fields |= {"archivedAt": session.archived_at, "archivedAs": session.archived}
    return fields | extra


def runtime() -> dict[str, Json]:
    """Returns the place where runs are executed, in the form of version 4: the gateway."""
    return {
        "id": "auto",
        "cloudPlacementSupported": False,
        "devicePlacementSupported": False,
        "source": "implicit",
    }


def thinking(model: ModelInfo | None, level: ThinkingLevel | None) -> dict[str, Json]:
    """Returns the thinking levels of a model and the default level, in the form of version 4."""
    levels = model.levels if model is not None else (ThinkingLevel.OFF,)
    options = [level.value for level in levels]
    return {
        "thinkingLevels": [{"id": option, "label": option} for option in options],
        "thinkingOptions": options,
        "thinkingDefault": nearest(level or ThinkingLevel.LOW, levels).value,
    }


def entry(context: GatewayContext, session: SessionEntry) -> dict[str, Json]:
    """Returns a session in the form in which `sessions.patch` and `sessions.reset` answer."""
    return {
        **_state(session),
        "chatType": session.chat_type,
        "createdAt": session.created_at,
        # A reset gives a new session id, and with it a new revision.
        "lifecycleRevision": session.session_id,
        "sessionFile": file(context, session),
        **_overrides(session),
    }


def file(context: GatewayContext, session: SessionEntry) -> str:
    """Returns the path of the mirror of the session's transcript."""
    return str(transcript_file(Path(context.config().state_dir) / "agents", session))


def is_main(key: SessionKey) -> bool:
    """Returns whether the key names the primary conversation of its agent."""
    return key == SessionKey.main(key.agent)


def _kind(session: SessionEntry, key: SessionKey) -> str:
    if len(key.scope) == 1 and key.scope[0] in GLOBAL_SCOPES:
        return key.scope[0]
    return "group" if session.chat_type == "group" else "direct"


def _state(session: SessionEntry) -> dict[str, Json]:
    return {
        "sessionId": session.session_id,
        "updatedAt": session.updated_at,
        "systemSent": session.tail > 0,
        "abortedLastRun": bool(session.aborted_last_run),
        "inputTokens": session.input_tokens,
        "outputTokens": session.output_tokens,
        "totalTokens": session.total_tokens,
        "totalTokensFresh": session.total_tokens > 0,
        "modelProvider": session.provider,
        "model": session.model,
    }


def _overrides(session: SessionEntry) -> dict[str, Json]:
    """Returns the label and the settings that are for this session only."""
    label: dict[str, Json] = {"label": session.label} if session.label else {}
    return label | session.settings.set_values()
