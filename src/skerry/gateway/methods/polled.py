"""What the page of OpenClaw 2026.9 asks again and again of what is not here: empty answers.

They are not among the methods that `hello-ok` names: nobody should build on them.
"""

from typing import Annotated, Final, Literal

from pydantic import Field

from skerry.gateway.frames import Json
from skerry.gateway.method import Call, Method, Name, NoParams, Params

Limit = Annotated[int, Field(ge=1, le=500)]


class TasksListParams(Params):
    """Parameters of `tasks.list`; with no tasks they choose nothing."""

    status: Name | Annotated[list[Name], Field(max_length=16)] | None = None
    agent_id: Name | None = None
    session_key: Name | None = None
    limit: Limit = 100
    cursor: Name | None = None
    sort_by: Literal["updatedAt", "endedAt"] | None = None


class OfSessionParams(Params):
    """Parameters of `sessions.branches.list`, `sessions.companion.state`, `progressCard.get`."""

    session_key: Name
    agent_id: Name | None = None


class VisibilityParams(Params):
    """Parameters of `sessions.observer.visibility`: nobody observes sessions."""

    visible: bool


class AuthStatusParams(Params):
    """Parameters of `models.authStatus`."""

    refresh: bool | None = None
    agent_id: Name | None = None


class UpdateStatusParams(Params):
    """Parameters of `update.status`; the gateway looks for no updates by itself."""

    refresh_checkout: bool | None = None


class TalkCatalogParams(Params):
    """Parameters of `talk.catalog`."""

    provider: Name | None = None
    model: Name | None = None


class PairingListParams(Params):
    """Parameters of `channels.pairing.list`."""

    channel: Name | None = None
    account_id: Name | None = None


class LibraryListParams(Params):
    """Parameters of `skills.library.list`."""

    session_key: Name | None = None
    scope: Literal["mine", "team", "all"] | None = None


class SkillsSearchParams(Params):
    """Parameters of `skills.search`; no registry is asked."""

    query: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    limit: Annotated[int, Field(ge=1, le=100)] = 20


def question_list(_call: Call, _params: NoParams) -> Json:
    """Return the questions of agents to people, of which there are none."""
    return {"questions": []}


def tasks_list(_call: Call, _params: TasksListParams) -> Json:
    """Return the tasks in the background, of which there are none."""
    return {"tasks": []}


def branches_list(_call: Call, _params: OfSessionParams) -> Json:
    """Return a conversation's branches, of which there are none: it goes one way."""
    return {"branches": []}


def companion_state(_call: Call, _params: OfSessionParams) -> Json:
    """Return what was asked about a conversation beside it, which is nothing."""
    return {"exchanges": []}


def progress_card(_call: Call, _params: OfSessionParams) -> Json:
    """Return a conversation's card of progress: null, for there is none."""
    return {"card": None}


def observer_visibility(_call: Call, _params: VisibilityParams) -> Json:
    """Take note of nothing: no observer looks at what a page shows."""
    return {"ok": True}


def approvals_list(_call: Call, _params: NoParams) -> Json:
    """Return what waits for a person's approval, which is nothing."""
    return []


def auth_status(call: Call, _params: AuthStatusParams) -> Json:
    """Return no provider's sign-in; `models.status` has those that rest, and why."""
    return {"ts": call.context.clock.now_ms(), "providers": []}


def update_status(_call: Call, _params: UpdateStatusParams) -> Json:
    """Return that no update is known."""
    return {"sentinel": None, "updateAvailable": None}


def talk_catalog(_call: Call, _params: TalkCatalogParams) -> Json:
    """Return the ways to talk by voice, of which there are none."""
    none: dict[str, Json] = {"ready": False, "providers": []}
    return {
        "modes": [],
        "transports": [],
        "brains": [],
        "speech": none,
        "transcription": none,
        "realtime": none,
    }


def pairing_list(_call: Call, _params: PairingListParams) -> Json:
    """Return the senders who wait to be let in on a platform, of whom there are none."""
    return {
        "accounts": [],
        "requests": [],
        "commandOwnerConfigured": False,
        "limits": {"pendingPerAccount": 0, "ttlMs": 0},
    }


def library_list(_call: Call, _params: LibraryListParams) -> Json:
    """Return the library's skills, of which there are none."""
    return {"entries": [], "selections": [], "defaultTarget": "team", "defaultSelectionLimit": 0}


def skills_search(_call: Call, _params: SkillsSearchParams) -> Json:
    """Return the skills that a registry has, of which there are none."""
    return {"results": []}


METHODS: Final = (
    Method("question.list", NoParams, question_list),
    Method("tasks.list", TasksListParams, tasks_list),
    Method("sessions.branches.list", OfSessionParams, branches_list),
    Method("sessions.companion.state", OfSessionParams, companion_state),
    Method("sessions.observer.visibility", VisibilityParams, observer_visibility),
    Method("progressCard.get", OfSessionParams, progress_card),
    Method("exec.approval.list", NoParams, approvals_list),
    Method("plugin.approval.list", NoParams, approvals_list),
    Method("openclaw.approval.list", NoParams, approvals_list),
    Method("models.authStatus", AuthStatusParams, auth_status),
    Method("update.status", UpdateStatusParams, update_status),
    Method("talk.catalog", TalkCatalogParams, talk_catalog),
    Method("channels.pairing.list", PairingListParams, pairing_list),
    Method("skills.library.list", LibraryListParams, library_list),
    Method("skills.search", SkillsSearchParams, skills_search),
)
