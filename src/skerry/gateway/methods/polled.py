"""Methods that the page of OpenClaw 2026.9 polls for features that are missing: empty answers.

They are not among the methods that `hello-ok` names: nobody should build on them.
"""

from datetime import UTC, datetime
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


class EnvironmentsListParams(Params):
    """Parameters of `environments.list`; with no environments they choose nothing."""

    runtime_id: Name | None = None
    projection: Literal["profiles"] | None = None
    include_desktop_setup: bool | None = None


class AgentParams(Params):
    """Parameters of `skills.proposals.list`."""

    agent_id: Name | None = None


class CatalogParams(Params):
    """Parameters of `plugins.catalog.browse`; no catalogue is asked."""

    query: Annotated[str, Field(max_length=200)] | None = None
    search_source: Name | None = None
    intent: Literal["all", "bundled", "trending", "official", "featured"] | None = None
    category: Name | None = None
    cursor: Annotated[str, Field(min_length=1, max_length=4096)] | None = None
    page_size: Annotated[int, Field(ge=1, le=100)] | None = None


class ApprovalHistoryParams(Params):
    """Parameters of `approval.history`; with no approvals they choose nothing."""

    cursor: Name | None = None
    limit: Annotated[int, Field(ge=1, le=100)] | None = None
    kind: Literal["exec", "plugin", "system-agent"] | None = None


class GrantsListParams(Params):
    """Parameters of `exec.approval.grants.list`; with no grants they choose nothing."""

    limit: Limit | None = None


class TranscriptsListParams(Params):
    """Parameters of `transcripts.list`; with no recorded meetings they choose nothing."""

    limit: Annotated[int, Field(ge=1, le=200)] = 50
    cursor: Annotated[str, Field(min_length=1, max_length=1 << 20)] | None = None
    query: Annotated[str, Field(max_length=256)] | None = None
    provider_id: Name | None = None
    account_id: Name | None = None
    agent_id: Name | None = None
    started_after: Annotated[str, Field(max_length=64)] | None = None
    started_before: Annotated[str, Field(max_length=64)] | None = None


class ArtifactsListParams(Params):
    """Parameters of `artifacts.list`; with no artifacts they choose nothing."""

    session_key: Name | None = None
    run_id: Name | None = None
    task_id: Name | None = None
    agent_id: Name | None = None
    message_role: Literal["assistant"] | None = None
    type: Literal["image"] | None = None
    limit: Annotated[int, Field(ge=1, le=4)] | None = None
    cursor: Name | None = None


class ProjectsListParams(Params):
    """Parameters of `projects.list`; with no projects they choose nothing."""

    include_observed: bool | None = None


class MemoryPlanParams(Params):
    """Parameters of `migrations.memory.plan`; `skerry import openclaw` takes a memory over."""

    agent_id: Name
    overwrite: bool | None = None


def question_list(_call: Call, _params: NoParams) -> Json:
    """Returns the questions of agents to people, of which there are none."""
    return {"questions": []}


def tasks_list(_call: Call, _params: TasksListParams) -> Json:
    """Returns the tasks in the background, of which there are none."""
    return {"tasks": []}


def branches_list(_call: Call, _params: OfSessionParams) -> Json:
    """Returns a conversation's branches, of which there are none: it goes one way."""
    return {"branches": []}


def companion_state(_call: Call, _params: OfSessionParams) -> Json:
    """Returns the side exchanges of a conversation: there are none."""
    return {"exchanges": []}


def progress_card(_call: Call, _params: OfSessionParams) -> Json:
    """Returns a conversation's card of progress: null, for there is none."""
    return {"card": None}


def observer_visibility(_call: Call, _params: VisibilityParams) -> Json:
    """Takes note of nothing: no observer looks at what a page shows."""
    return {"ok": True}


def approvals_list(_call: Call, _params: NoParams) -> Json:
    """Returns the pending approvals: there are none."""
    return []


def auth_status(call: Call, _params: AuthStatusParams) -> Json:
    """Returns no provider's sign-in; `models.status` has those that rest, and why."""
    return {"ts": call.context.clock.now_ms(), "providers": []}


def update_status(_call: Call, _params: UpdateStatusParams) -> Json:
    """Returns that no update is known."""
    return {"sentinel": None, "updateAvailable": None}


def talk_catalog(_call: Call, _params: TalkCatalogParams) -> Json:
    """Returns the ways to talk by voice, of which there are none."""
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
    """Returns the senders who wait to be let in on a platform, of whom there are none."""
    return {
        "accounts": [],
        "requests": [],
        "commandOwnerConfigured": False,
        "limits": {"pendingPerAccount": 0, "ttlMs": 0},
    }


def library_list(_call: Call, _params: LibraryListParams) -> Json:
    """Returns the library's skills, of which there are none."""
    return {"entries": [], "selections": [], "defaultTarget": "team", "defaultSelectionLimit": 0}


def skills_search(_call: Call, _params: SkillsSearchParams) -> Json:
    """Returns the skills that a registry has, of which there are none."""
    return {"results": []}


def environments_list(_call: Call, _params: EnvironmentsListParams) -> Json:
    """Returns the environments besides this machine, of which there are none."""
    return {"environments": []}


def skill_proposals(call: Call, _params: AgentParams) -> Json:
    """Returns the skills that were proposed, of which there are none."""
    at = datetime.fromtimestamp(call.context.clock.now_ms() / 1000, UTC)
    schema = "openclaw.skill-workshop.proposals-manifest.v1"
    return {"schema": schema, "updatedAt": at.isoformat(), "proposals": [], "installedSkills": []}


def themes_list(_call: Call, _params: NoParams) -> Json:
    """Returns the themes that are kept for a page, of which there are none."""
    return {"themes": [], "current": {"requestedId": None}}


def plugins_browse(_call: Call, _params: CatalogParams) -> Json:
    """Returns a catalogue's plugins, of which there are none: the owner names files."""
    return {"items": []}


def worktrees_list(_call: Call, _params: NoParams) -> Json:
    """Returns the working trees of repositories, of which there are none."""
    return {"worktrees": []}


def approval_history(_call: Call, _params: ApprovalHistoryParams) -> Json:
    """Returns the past approvals: there are none."""
    return {"items": []}


def grants_list(_call: Call, _params: GrantsListParams) -> Json:
    """Returns the standing grants of jobs: there are none."""
    return {"grants": []}


def transcripts_list(_call: Call, _params: TranscriptsListParams) -> Json:
    """Returns the recorded meetings, of which there are none."""
    return {"sessions": [], "nextCursor": None}


def artifacts_list(_call: Call, _params: ArtifactsListParams) -> Json:
    """Returns the artifacts of runs: there are none."""
    return {"artifacts": []}


def users_list(_call: Call, _params: NoParams) -> Json:
    """Returns the profiles of users, of which there are none: all belongs to the one owner."""
    return {"profiles": []}


def projects_list(_call: Call, _params: ProjectsListParams) -> Json:
    """Returns the projects, of which there are none."""
    return {"projects": []}


def memory_plan(call: Call, params: MemoryPlanParams) -> Json:
    """Returns the memories of other programs that a page can import: there are none."""
    workspace = str(call.context.config().workspace(call.session_key(None, params.agent_id).agent))
    return {"agentId": params.agent_id, "workspace": workspace, "providers": []}


METHODS: Final = (
    Method("environments.list", EnvironmentsListParams, environments_list),
    Method("skills.proposals.list", AgentParams, skill_proposals),
    Method("themes.list", NoParams, themes_list),
    Method("plugins.catalog.browse", CatalogParams, plugins_browse),
    Method("worktrees.list", NoParams, worktrees_list),
    Method("approval.history", ApprovalHistoryParams, approval_history),
    Method("exec.approval.grants.list", GrantsListParams, grants_list),
    Method("transcripts.list", TranscriptsListParams, transcripts_list),
    Method("artifacts.list", ArtifactsListParams, artifacts_list),
    Method("users.list", NoParams, users_list),
    Method("projects.list", ProjectsListParams, projects_list),
    Method("migrations.memory.plan", MemoryPlanParams, memory_plan),
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
