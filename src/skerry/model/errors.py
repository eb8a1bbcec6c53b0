"""Every error of Skerry, in one tree.

SkerryError
    ConfigError: ConfigInvalidError, ConfigRewriteError, ConfigIncludedError, ConfigProtectedError
    RequestError: InvalidSessionKeyError, UnknownAgentError, BusyError
    StateError: StateLockedError, StaleTailError, NewerStateError, those that begin with Store
    ModelError: those that begin with Model, and BudgetError
    ToolError: OutsideWorkspaceError
    ClientError: GatewayUnreachableError, GatewayRefusedError
    DeliveryRefusedError, CredentialError, ServiceError, PluginError, SandboxError

`code` is stable and is sent as `details.code`; the message and `remedy` are for people. Expected
outcomes, such as a failed run or a refused tool call, are values, not exceptions: a `ModelError`
becomes a run's result in `skerry.runtime.model_call`, a `ToolError` becomes a tool result.
"""

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct

from skerry.infra.spelling import spelt_like


class SkerryError(Exception):
    """Base of all errors of Skerry. `remedy` is the next step for a person, or empty."""

    code: ClassVar[str] = "internal"
    remedy: str = ""

    def __init__(self, message: str = "", remedy: str = "") -> None:
        super().__init__(message)
        if remedy:
            self.remedy = remedy


class ConfigError(SkerryError):
    """The configuration cannot be used."""

    code = "config"


class ConfigIssue(Struct, frozen=True):
    """One issue of the configuration: key path, message and remedy."""

    path: str
    message: str
    remedy: str = ""

    def __str__(self) -> str:
        subject = self.path or "(whole file)"
        return f"{subject}: {self.message}" + (f" {self.remedy}" if self.remedy else "")


class ConfigInvalidError(ConfigError):
    """The file is not valid; it has all issues."""

    code = "config.invalid"

    def __init__(self, file: str, issues: Sequence[ConfigIssue]) -> None:
        self.file = file
        self.issues = tuple(issues)
        self.remedy = f"Edit {file}; `skerry doctor` checks it."
        lines = "\n".join(f"  - {issue}" for issue in issues)
        super().__init__(f"{file} cannot be used:\n{lines}")


class ConfigRewriteError(ConfigError):
    """A setting cannot be written without losing text of the file."""

    code = "config.rewrite"

    def __init__(self, file: str, remedy: str) -> None:
        self.remedy = remedy
        super().__init__(f"{file} has comments or JSON5 syntax that this change would lose.")


class ConfigIncludedError(ConfigError):
    """An included file sets the value, so the change must be made in that file."""

    code = "config.included"

    def __init__(self, directory: str, file: str) -> None:
        self.remedy = f"Edit {file} by hand."
        super().__init__(f"{directory} is set in the included file {file}.")


class ConfigProtectedError(ConfigError):
    """A client may not change `paths`, which decide which code runs, or who may connect."""

    code = "config.protected"

    def __init__(self, file: str, paths: Sequence[str], remedy: str) -> None:
        self.paths = tuple(paths)
        self.remedy = remedy or (
            f"Edit {file}, or first set gateway.control.allowCodeChanges to true in it by hand."
        )
        listed = ", ".join(self.paths[:5]) + (", ..." if len(self.paths) > 5 else "")  # noqa: PLR2004 - enough to recognise the change
        super().__init__(f"A client cannot change {listed}.")


class RequestError(SkerryError):
    """A request cannot be served as it was sent."""

    code = "request"


class InvalidSessionKeyError(RequestError):
    """A session key is not valid."""

    code = "request.session_key"

    def __init__(self, key: str, reason: str) -> None:
        self.key = key
        super().__init__(f"invalid session key {key!r}: {reason}")


class UnconfiguredAgentError(RequestError):
    """A request or a session key names an agent that is not configured."""

    code = "request.unknown_agent"

    def __init__(self, agent_id: str, configured: Sequence[str]) -> None:
        near = spelt_like(agent_id, configured)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        super().__init__(
            f"No agent {agent_id!r}.{hint} Configured agents: {', '.join(configured)}."
        )


class BusyError(RequestError):
    """The gateway accepts no new work: it is shutting down, or a limit is reached."""

    code = "request.busy"


class KeyReusedError(RequestError):
    """An idempotency key was used again with different content."""

    code = "request.key_reused"
    remedy = "Use a new idempotency key for new content, or repeat the same content."

    def __init__(self, key: str) -> None:
        super().__init__(f"The idempotency key {key!r} was used with different content.")


class StateError(SkerryError):
    """The state directory or its database cannot be used."""

    code = "state"


class StateLockedError(StateError):
    """Another running gateway owns the state directory."""

    code = "state.locked"

    def __init__(self, directory: str, pid: int, *, starting: bool = False) -> None:
        then = "Then start it again: skerry gateway run."
        if starting:
            then = "`skerry gateway status` shows its page. For a second one set SKERRY_STATE_DIR."
        self.remedy = f"To stop it: kill {pid}. {then}"
        super().__init__(f"A gateway with process id {pid} already owns {directory}.")


class StoreClosedError(StateError):
    """The store was closed before, or while, a unit was submitted."""

    code = "state.closed"


class StoreFailedError(StateError):
    """The database could not be read or written, for example because the disk is full.

    Nothing of the unit is stored; the same unit may be committed later.
    """

    code = "state.failed"
    remedy = "Check the space on its disk and its owner; `skerry doctor` checks both."


class StaleTailError(StateError):
    """Entries were added to a transcript since it was read; the unit wrote nothing."""

    code = "state.stale_tail"

    def __init__(self, session: str, expected: int, actual: int) -> None:
        super().__init__(f"transcript {session} ends at {actual}, not at {expected}")


class NewerStateError(StateError):
    """The database was written by a newer version."""

    code = "state.newer"

    def __init__(self, file: str, schema: int, supported: int) -> None:
        self.remedy = "Install the newer Skerry again, or restore the backup beside the file."
        super().__init__(f"{file} has schema {schema}; this version supports {supported}.")


class ModelError(SkerryError):
    """A model call failed; if `retryable`, it may succeed after `retry_after` seconds."""

    code = "model"
    retryable: ClassVar[bool] = False
    attempts: tuple[str, ...] = ()  # the tried models with reasons, if there were several

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        self.retry_after = retry_after
        super().__init__(message)


class ModelUnavailableError(ModelError):
    """No model is configured, or this machine cannot run it; see `remedy`."""

    code = "model.unavailable"

    def __init__(self, message: str, remedy: str = "") -> None:
        self.remedy = remedy
        super().__init__(message)


class ModelAuthError(ModelError):
    """The provider refused the key (401, 403)."""

    code = "model.auth"
    remedy = "Enter another key (page: Model; `skerry auth add`), or sign in (`skerry auth login`)."


class ModelSignInError(ModelAuthError):
    """A sign-in has ended and cannot be renewed: a person has to sign in again."""

    code = "model.sign_in"


class ModelBillingError(ModelError):
    """The account has no credit (402, or a 429 with that reason); waiting does not help."""

    code = "model.billing"
    remedy = "Add credit at the provider, or choose another model: skerry models use."


class ModelRateLimitError(ModelError):
    """The provider limits the rate (429)."""

    code = "model.rate_limit"
    retryable = True


class ModelOverloadedError(ModelError):
    """The provider is overloaded or failing (5xx, 529)."""

    code = "model.overloaded"
    retryable = True


class ModelOverflowError(ModelError):
    """The prompt does not fit the model's context window."""

    code = "model.overflow"


class ModelRequestError(ModelError):
    """The provider refused the request (other 4xx)."""

    code = "model.request"


class ModelConnectionError(ModelError):
    """The provider could not be reached, the connection broke, or no data arrived in time."""

    code = "model.connection"
    retryable = True


class ModelStreamCutError(ModelError):
    """The stream ended without its finish marker, or a part of it was not valid."""

    code = "model.stream_cut"
    retryable = True


class ModelEmptyReplyError(ModelError):
    """The response has no text and no tool call."""

    code = "model.empty_reply"
    retryable = True


class ModelNotFoundError(ModelError):
    """The provider has no such model (404), or its address has no model API."""

    code = "model.not_found"
    remedy = "Check the model's name, and the address and api of its provider."


class ModelCoolingError(ModelError):
    """A credential cools down for this model after failures, and was not used."""

    code = "model.cooling"
    retryable = True
    remedy = "`skerry models status` shows until when."


class ModelsFailedError(ModelError):
    """Several candidates were tried, and all failed; `attempts` has each with its reason."""

    code = "model.all_failed"
    retryable = True
    remedy = "`skerry models status` shows which credentials cool down, and until when."

    def __init__(self, attempts: Sequence[str]) -> None:
        self.attempts, summary = tuple(attempts), f"{len(attempts) - 1} more failed, see /status."
        super().__init__(f"No model answered: {attempts[0].rstrip('.')}; {summary}")


class BudgetError(ModelError):
    """No model is called: a budget of today is used up, or today's usage is unknown."""

    code = "usage.budget"


class ToolError(SkerryError):
    """A tool call failed; the message tells the model what to do instead."""

    code = "tool"


class OutsideWorkspaceError(ToolError):
    """A path is outside the workspace, or is not a plain file or directory in it."""

    code = "tool.outside_workspace"


class DeliveryRefusedError(SkerryError):
    """A platform will never accept this part, as in a deleted chat, or in one that blocks us."""

    code = "delivery.refused"


class ClientError(SkerryError):
    """A request of a client to a gateway failed."""

    code = "client"


class GatewayUnreachableError(ClientError):
    """No gateway answers at the address."""

    code = "client.unreachable"

    def __init__(self, url: str, reason: str) -> None:
        self.remedy = "Start it with `skerry gateway run`, or pass another address with --url."
        super().__init__(f"No gateway answers at {url}: {reason}")


class GatewayRefusedError(ClientError):
    """The gateway answered a request with an error; `wire_code` is `error.code` of the frame.

    `payload` is from the same frame, such as a failed run's partial answer; so is `retry_after_ms`.
    """

    code = "client.refused"

    def __init__(
        self, wire_code: str, message: str, details_code: str = "", payload: object = None
    ) -> None:
        self.wire_code, self.details_code = wire_code, details_code
        self.payload = payload
        self.retry_after_ms: int | None = None
        super().__init__(message)


class CredentialError(SkerryError):
    """A credential cannot be read, stored or used; see `remedy`."""

    code = "credential"


class ServiceError(SkerryError):
    """The system's service manager cannot be called, or refuses."""

    code = "service.failed"


class SandboxError(SkerryError):
    """A command cannot be run in a sandbox; see `remedy`."""

    code = "sandbox"


class PluginError(SkerryError):
    """A plugin is not loaded; `remedy` has the step that would load it."""

    code = "plugin"
