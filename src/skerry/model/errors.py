"""Every error of Skerry, in one tree.

SkerryError
    ConfigError: ConfigInvalidError, ConfigRewriteError, ConfigIncludedError, ConfigProtectedError
    RequestError: InvalidSessionKeyError, UnknownAgentError, BusyError
    StateError: StateLockedError, StaleTailError, NewerStateError, those that begin with Store
    ModelError: those that begin with Model, and BudgetError
    ToolError: OutsideWorkspaceError
    ClientError: GatewayUnreachableError, GatewayRefusedError
    DeliveryRefusedError, CredentialError, ServiceError, PluginError, SandboxError

`code` is stable and goes onto the wire as `details.code`; the message is for people and says what
to do next. Expected outcomes (a run that failed, a tool that said no) are values, not exceptions:
a `ModelError` becomes a run's result in `skerry.runtime.model_call`, a `ToolError` a tool result.
"""

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct

from skerry.infra.spelling import spelt_like


class SkerryError(Exception):
    """Base of all our errors. `remedy` is the next step for a person, or empty."""

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
    """One thing wrong in the configuration: dotted path, what is wrong, what to do."""

    path: str
    message: str
    remedy: str = ""

    def __str__(self) -> str:
        subject = self.path or "(whole file)"
        return f"{subject}: {self.message}" + (f" {self.remedy}" if self.remedy else "")


class ConfigInvalidError(ConfigError):
    """The file breaks a rule; all issues are named at once."""

    code = "config.invalid"

    def __init__(self, file: str, issues: Sequence[ConfigIssue]) -> None:
        self.file = file
        self.issues = tuple(issues)
        self.remedy = f"Edit {file}; `skerry doctor` checks it."
        lines = "\n".join(f"  - {issue}" for issue in issues)
        super().__init__(f"{file} cannot be used:\n{lines}")


class ConfigRewriteError(ConfigError):
    """A setting cannot be written without losing what a person wrote in the file."""

    code = "config.rewrite"

    def __init__(self, file: str, remedy: str) -> None:
        self.remedy = remedy
        super().__init__(f"{file} has comments or JSON5 syntax that this change would lose.")


class ConfigIncludedError(ConfigError):
    """A value comes from an included file, and the change can be made there only."""

    code = "config.included"

    def __init__(self, directory: str, file: str) -> None:
        self.remedy = f"Edit {file} by hand."
        super().__init__(f"{directory} comes from {file}, which is included.")


class ConfigProtectedError(ConfigError):
    """A change over the wire touches what decides which code or command runs, or who may connect.

    `paths` names them.
    """

    code = "config.protected"

    def __init__(self, file: str, paths: Sequence[str], remedy: str) -> None:
        self.paths = tuple(paths)
        self.remedy = remedy or (
            f"Set gateway.control.allowCodeChanges to true in {file} by hand first,"
            " or edit the file itself."
        )
        listed = ", ".join(self.paths[:5]) + (", ..." if len(self.paths) > 5 else "")  # noqa: PLR2004 - enough to see what is meant
        super().__init__(f"{listed} cannot be changed from here.")


class RequestError(SkerryError):
    """A request names something that cannot be served."""

    code = "request"


class InvalidSessionKeyError(RequestError):
    """A session key does not parse."""

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
    """The gateway takes no new work: it is draining, or a bound is reached."""

    code = "request.busy"


class KeyReusedError(RequestError):
    """An idempotency key came again with another content."""

    code = "request.key_reused"
    remedy = "Use a new idempotency key for what is new; repeat the same content to ask again."

    def __init__(self, key: str) -> None:
        super().__init__(f"The idempotency key {key!r} was used with another content.")


class StateError(SkerryError):
    """The state directory or its database cannot be used."""

    code = "state"


class StateLockedError(StateError):
    """Another live gateway owns the state directory."""

    code = "state.locked"

    def __init__(self, directory: str, pid: int, *, starting: bool = False) -> None:
        then = "Then start it again: skerry gateway run."
        if starting:
            then = "`skerry gateway status` shows its page. Another needs another SKERRY_STATE_DIR."
        self.remedy = f"To stop it: kill {pid}. {then}"
        super().__init__(f"A gateway with process id {pid} already owns {directory}.")


class StoreClosedError(StateError):
    """The store was closed while, or before, a unit was handed to it."""

    code = "state.closed"


class StoreFailedError(StateError):
    """The database could not be read or written: a full disk, for one.

    Nothing of the unit is on disk, and the same unit may be committed later.
    """

    code = "state.failed"
    remedy = "Look at the space on its disk and at its owner; `skerry doctor` checks both."


class StaleTailError(StateError):
    """A transcript moved on since it was read; the unit wrote nothing."""

    code = "state.stale_tail"

    def __init__(self, session: str, expected: int, actual: int) -> None:
        super().__init__(f"transcript {session} ends at {actual}, not at {expected}")


class NewerStateError(StateError):
    """The database was written by a newer version."""

    code = "state.newer"

    def __init__(self, file: str, schema: int, supported: int) -> None:
        self.remedy = "Install the newer Skerry again, or restore the backup beside the file."
        super().__init__(f"{file} has schema {schema}; this version knows {supported}.")


class ModelError(SkerryError):
    """A model call failed; `retryable` ones may succeed later, after `retry_after` seconds."""

    code = "model"
    retryable: ClassVar[bool] = False
    attempts: tuple[str, ...] = ()  # each model that was tried, where several were, and why

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        self.retry_after = retry_after
        super().__init__(message)


class ModelUnavailableError(ModelError):
    """No model is configured or this machine cannot run it; `remedy` says what to do."""

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
    """The account has no credit left (402, or a 429 that says so); waiting does not help."""

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
    """The provider refused the request as such (other 4xx)."""

    code = "model.request"


class ModelConnectionError(ModelError):
    """The provider could not be reached, or the connection broke, or it was silent too long."""

    code = "model.connection"
    retryable = True


class ModelStreamCutError(ModelError):
    """The stream ended without its finish marker, or a piece of it was not readable."""

    code = "model.stream_cut"
    retryable = True


class ModelEmptyReplyError(ModelError):
    """The model answered nothing: no text and no tool call."""

    code = "model.empty_reply"
    retryable = True


class ModelNotFoundError(ModelError):
    """The provider has no such model (404), or no model API is at its address."""

    code = "model.not_found"
    remedy = "Look at the model's name and at its provider's address and api."


class ModelCoolingError(ModelError):
    """A credential cools down for this model after failures, and was not used."""

    code = "model.cooling"
    retryable = True
    remedy = "`skerry models status` shows until when."


class ModelsFailedError(ModelError):
    """Several candidates were tried, and all failed; `attempts` has each of them and why."""

    code = "model.all_failed"
    retryable = True
    remedy = "`skerry models status` shows who cools down and until when."

    def __init__(self, attempts: Sequence[str]) -> None:
        self.attempts, summary = tuple(attempts), f"{len(attempts) - 1} more failed, see /status."
        super().__init__(f"No model answered: {attempts[0].rstrip('.')}; {summary}")


class BudgetError(ModelError):
    """No model is asked: what may be used today is used up, or nobody can say how much was."""

    code = "usage.budget"


class ToolError(SkerryError):
    """A tool cannot do what was asked; the message tells the model what to do instead."""

    code = "tool"


class OutsideWorkspaceError(ToolError):
    """A path leaves the workspace, or is not a plain file or directory in it."""

    code = "tool.outside_workspace"


class DeliveryRefusedError(SkerryError):
    """A platform will never take this part: the chat is gone, or we are blocked in it."""

    code = "delivery.refused"


class ClientError(SkerryError):
    """A client could not do its work with a gateway."""

    code = "client"


class GatewayUnreachableError(ClientError):
    """No gateway answers at the address."""

    code = "client.unreachable"

    def __init__(self, url: str, reason: str) -> None:
        self.remedy = "Start it with `skerry gateway run`, or name another with --url."
        super().__init__(f"No gateway answers at {url}: {reason}")


class GatewayRefusedError(ClientError):
    """The gateway answered a request with an error; `wire_code` is the wire's `error.code`.

    `payload` came beside it, such as the partial answer of a run that failed; `retry_after_ms` too.
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
    """A credential cannot be read, kept or used; `remedy` says what to do."""

    code = "credential"


class ServiceError(SkerryError):
    """The system's service manager cannot be asked, or refuses."""

    code = "service.failed"


class SandboxError(SkerryError):
    """A command cannot be run in a sandbox; `remedy` tells what to do."""

    code = "sandbox"


class PluginError(SkerryError):
    """A plugin is not loaded; `remedy` says what would let it."""

    code = "plugin"
