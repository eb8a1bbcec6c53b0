"""Empty responses of methods that the page of OpenClaw 2026.9 polls for missing features.

`hello-ok` does not list them, because clients should not depend on them.
"""

from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

from pydantic import Field, create_model

from skerry.gateway.frames import Json
from skerry.gateway.method import Call, Method, Name, Params


def _limit(maximum: int) -> Any:
    return Annotated[int, Field(ge=1, le=maximum)]


def _text(max_length: int, min_length: int = 0) -> Any:
    return Annotated[str, Field(min_length=min_length, max_length=max_length)]


def _empty(
    name: str, subject: str, answer: dict[str, Json] | list[Json], **types: Any
) -> Method[Any]:
    """Returns the method `name`, whose response is constant, because no `subject` exists.

    `types` maps its parameters to types; a type without a default makes an optional parameter.
    """

    def respond(_call: Call, _params: Params) -> Json:
        return answer

    respond.__doc__ = f"Returns {subject}: there are none."
    fields: dict[str, Any] = {
        key: kind if isinstance(kind, tuple) else (kind | None, None) for key, kind in types.items()
    }
    about = f"Parameters of `{name}`; they have no effect."
    return Method(name, create_model(name, __base__=Params, __doc__=about, **fields), respond)


class AuthStatusParams(Params):
    """Parameters of `models.authStatus`; they have no effect."""

    refresh: bool | None = None
    agent_id: Name | None = None


def auth_status(call: Call, _params: AuthStatusParams) -> Json:
    """Returns no sign-in of a provider; `models.status` has the profiles that cool down."""
    return {"ts": call.context.clock.now_ms(), "providers": []}


class StubAgentParams(Params):
    """Parameters of `skills.proposals.list`; they have no effect."""

    agent_id: Name | None = None


def skill_proposals(call: Call, _params: StubAgentParams) -> Json:
    """Returns the proposed skills: there are none."""
    at = datetime.fromtimestamp(call.context.clock.now_ms() / 1000, UTC)
    schema = "openclaw.skill-workshop.proposals-manifest.v1"
    return {"schema": schema, "updatedAt": at.isoformat(), "proposals": [], "installedSkills": []}


class MemoryPlanParams(Params):
    """Parameters of `migrations.memory.plan`; `skerry import openclaw` imports a memory."""

    agent_id: Name
    overwrite: bool | None = None


def memory_plan(call: Call, params: MemoryPlanParams) -> Json:
    """Returns the memories of other programs that a page can import: there are none."""
    workspace = str(call.context.config().workspace(call.session_key(None, params.agent_id).agent))
    return {"agentId": params.agent_id, "workspace": workspace, "providers": []}


_SESSION: Final[dict[str, Any]] = {"session_key": (Name, ...), "agent_id": Name}
_NO_SPEECH: Final[dict[str, Json]] = {"ready": False, "providers": []}

METHODS: Final[tuple[Method[Any], ...]] = (
    Method("models.authStatus", AuthStatusParams, auth_status),
    Method("skills.proposals.list", StubAgentParams, skill_proposals),
    Method("migrations.memory.plan", MemoryPlanParams, memory_plan),
    _empty(
        "sessions.branches.list", "the branches of a conversation", {"branches": []}, **_SESSION
    ),
    _empty(
        "sessions.companion.state",
        "the side exchanges of a conversation",
        {"exchanges": []},
        **_SESSION,
    ),
    _empty("progressCard.get", "the progress cards of a conversation", {"card": None}, **_SESSION),
    _empty(
        "sessions.observer.visibility", "observers of sessions", {"ok": True}, visible=(bool, ...)
    ),
    _empty("question.list", "questions of agents to people", {"questions": []}),
    _empty(
        "tasks.list",
        "the tasks in the background",
        {"tasks": []},
        status=Name | Annotated[list[Name], Field(max_length=16)],
        agent_id=Name,
        session_key=Name,
        limit=_limit(500),
        cursor=Name,
        sort_by=Literal["updatedAt", "endedAt"],
    ),
    _empty("plugin.approval.list", "pending approvals", []),
    _empty("openclaw.approval.list", "pending approvals", []),
    _empty(
        "approval.history",
        "past approvals",
        {"items": []},
        cursor=Name,
        limit=_limit(100),
        kind=Literal["exec", "plugin", "system-agent"],
    ),
    _empty("exec.approval.grants.list", "grants of jobs", {"grants": []}, limit=_limit(500)),
    _empty(
        "update.status",
        "updates that the gateway found by itself",
        {"sentinel": None, "updateAvailable": None},
        refresh_checkout=bool,
    ),
    _empty(
        "talk.catalog",
        "the ways to talk by voice",
        {
            "modes": [],
            "transports": [],
            "brains": [],
            "speech": _NO_SPEECH,
            "transcription": _NO_SPEECH,
            "realtime": _NO_SPEECH,
        },
        provider=Name,
        model=Name,
    ),
    _empty(
        "skills.library.list",
        "the skills of a library",
        {"entries": [], "selections": [], "defaultTarget": "team", "defaultSelectionLimit": 0},
        session_key=Name,
        scope=Literal["mine", "team", "all"],
    ),
    _empty(
        "skills.search",
        "the skills of a registry, which is not asked",
        {"results": []},
        query=_text(512, 1),
        limit=_limit(100),
    ),
    _empty(
        "environments.list",
        "environments besides this machine",
        {"environments": []},
        runtime_id=Name,
        projection=Literal["profiles"],
        include_desktop_setup=bool,
    ),
    _empty("themes.list", "stored themes", {"themes": [], "current": {"requestedId": None}}),
    _empty(
        "plugins.catalog.browse",
        "the plugins of a catalogue, which is not asked",
        {"items": []},
        query=_text(200),
        search_source=Name,
        intent=Literal["all", "bundled", "trending", "official", "featured"],
        category=Name,
        cursor=_text(4096, 1),
        page_size=_limit(100),
    ),
    _empty("worktrees.list", "working trees of repositories", {"worktrees": []}),
    _empty(
        "transcripts.list",
        "recorded meetings",
        {"sessions": [], "nextCursor": None},
        limit=_limit(200),
        cursor=_text(1 << 20, 1),
        query=_text(256),
        provider_id=Name,
        account_id=Name,
        agent_id=Name,
        started_after=_text(64),
        started_before=_text(64),
    ),
    _empty(
        "artifacts.list",
        "the artifacts of runs",
        {"artifacts": []},
        session_key=Name,
        run_id=Name,
        task_id=Name,
        agent_id=Name,
        message_role=Literal["assistant"],
        type=Literal["image"],
        limit=_limit(4),
        cursor=Name,
    ),
    _empty("users.list", "profiles of users besides the owner", {"profiles": []}),
    _empty("projects.list", "projects", {"projects": []}, include_observed=bool),
)
