"""Logins that a person completes in a browser or on a phone, started by a gateway method.

`channels.login.start` runs until the login is over and ends with the connection of its client. Its
first response contains the address; `channels.login.wait` returns the outcome.
"""

import secrets
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import anyio
import segno
from pydantic import Field

from skerry.config.channels import DEFAULT, AccountName
from skerry.config.paths import MISSING, KeyPath
from skerry.features.channels.accounts import Credential, entered, platform_named, section_of
from skerry.features.channels.channel_signin import signed_in
from skerry.features.channels.linking import linked
from skerry.gateway.context import PendingLogin
from skerry.gateway.frames import ErrorCode, ErrorShape, Json
from skerry.gateway.method import Call, Method, Name, Params, RefusedError
from skerry.infra.channels import Platform
from skerry.model.errors import SkerryError

MAX_LOGINS: Final = 4
"""Maximum number of logins of one gateway at the same time."""
SECONDS: Final = 660
"""Maximum duration of a login in seconds; a sign-in or a phone may expire earlier."""
WAIT_MS: Final = 25_000
"""Maximum seconds of one wait for an outcome; the client then calls again."""
_START_AGAIN: Final = "Start the login again."


class StartParams(Params):
    """Parameters of `channels.login.start`; `channels.platforms` lists the keys of `settings`."""

    channel: Name
    account_id: Annotated[AccountName, Field(max_length=32)] | None = None
    kind: Literal["oauth", "qr"]
    settings: Annotated[dict[Name, Credential], Field(max_length=16)] = Field(default_factory=dict)


class LoginIdParams(Params):
    """Parameters of a method for one login."""

    id: Name


class AnswerParams(LoginIdParams):
    """Parameters of `channels.login.answer`."""

    answer: Annotated[str, Field(min_length=1, max_length=16_384)]


class WaitParams(LoginIdParams):
    """Parameters of `channels.login.wait`."""

    timeout_ms: Annotated[int, Field(ge=0, le=WAIT_MS)] = WAIT_MS


class LoginAttempt:
    """One login: the pasted address, and its outcome."""

    def __init__(self) -> None:
        self.scope: Final = anyio.CancelScope()
        self._text = ""
        self._pasted = anyio.Event()
        self._over = anyio.Event()
        self._outcome: Json | ErrorShape = None

    @property
    def is_over(self) -> bool:
        """Returns true when the login has an outcome."""
        return self._over.is_set()

    def paste(self, text: str) -> None:
        """Stores the final address of the person's browser; only the first call counts."""
        if not self._pasted.is_set():
            self._text = text
            self._pasted.set()

    async def pasted(self) -> str:
        """Waits for the pasted address and returns it."""
        await self._pasted.wait()
        return self._text

    def cancel(self) -> None:
        """Ends it."""
        self.scope.cancel()

    def end(self, outcome: Json | ErrorShape) -> None:
        """Sets the outcome."""
        self._outcome = outcome
        self._over.set()

    async def outcome(self, seconds: float) -> Json:
        """Returns the result, or None after these seconds; raises the failure of the login."""
        with anyio.move_on_after(seconds):
            await self._over.wait()
        if isinstance(self._outcome, ErrorShape):
            raise RefusedError.of(self._outcome)
        return self._outcome


async def login_start(call: Call, params: StartParams) -> Json:
    """Starts a login, which ends with the connection of its client.

    The first response contains its `id` and the `url` for a browser, or the `uri` for a phone with
    the `image` of its code; the last response contains the account.
    """
    platform = platform_named(params.channel)
    _check(platform, params)
    name, attempt = _added(call.context.logins)
    try:
        attempt.end(await _result(call, platform, params, name, attempt))
    finally:
        if not attempt.is_over:
            # Its client has disconnected, so no call reads the outcome.
            attempt.end(RefusedError("The login ended with its client.", _START_AGAIN).shape)
            call.context.logins.pop(name, None)
    return await attempt.outcome(0)


def _check(platform: Platform, params: StartParams) -> None:
    kinds = platform.section.login_elsewhere
    if params.kind not in kinds:
        listed = ", ".join(kinds) or "none"
        message = f"{platform.label} has no login of the kind {params.kind!r}; it has: {listed}."
        raise RefusedError(message, "Enter its credentials with `channels.login`.")
    keys = [key for key, _ in kinds[params.kind]]
    if unknown_keys := sorted(params.settings.keys() - set(keys)):
        listed = ", ".join(keys) or "none"
        raise RefusedError(f"Unknown settings: {', '.join(unknown_keys)}.", f"Settings: {listed}.")


def _added(logins: dict[str, PendingLogin]) -> tuple[str, LoginAttempt]:
    """Returns a new login; above the limit it first removes logins whose outcome was not read."""
    for name in [name for name, login in logins.items() if login.is_over]:
        if len(logins) >= MAX_LOGINS:
            del logins[name]
    if len(logins) >= MAX_LOGINS:
        message = f"{MAX_LOGINS} logins are running, which is the limit."
        remedy = "Finish or cancel one of them."
        raise RefusedError(message, remedy, code=ErrorCode.UNAVAILABLE, retryable=True)
    name = secrets.token_urlsafe(16)
    attempt = LoginAttempt()
    logins[name] = attempt
    return name, attempt


async def _result(
    call: Call, platform: Platform, params: StartParams, name: str, attempt: LoginAttempt
) -> Json | ErrorShape:
    response: dict[str, Json] = {"status": "accepted", "id": name, "kind": params.kind}
    account = params.account_id or DEFAULT
    carry_out = _by_code if params.kind == "qr" else _by_browser
    try:
        with attempt.scope, anyio.fail_after(SECONDS):
            values = await carry_out(call, platform, params, attempt, response)
            result = await entered(call, platform, account, values, "channels.login.start")
            return {"status": "done", **result}
    except TimeoutError:
        return RefusedError(f"The login took more than {SECONDS} s.", _START_AGAIN).shape
    except RefusedError as error:
        return error.shape
    except SkerryError as error:
        # The remedy of a sign-in names a command for models, not for channels.
        remedy = _START_AGAIN if "skerry auth" in error.remedy else error.remedy
        return RefusedError(str(error), remedy).shape
    return RefusedError("The login was cancelled.", _START_AGAIN).shape


async def _by_code(
    call: Call, platform: Platform, params: StartParams, _: LoginAttempt, response: dict[str, Json]
) -> Mapping[KeyPath, Any]:
    section = section_of(call, platform)
    settings = section.account(params.account_id or DEFAULT) if section else None

    def show(uri: str) -> None:
        code = segno.make(uri, error="l", micro=False)
        image = code.svg_data_uri(scale=4, border=4, light="white")
        call.respond({**response, "uri": uri, "image": image})

    values = await linked(platform, settings or section, {}, show)
    return {(key,): value for key, value in values.items()}


async def _by_browser(
    call: Call,
    platform: Platform,
    params: StartParams,
    attempt: LoginAttempt,
    response: dict[str, Json],
) -> Mapping[KeyPath, Any]:
    account = params.account_id or DEFAULT
    section = section_of(call, platform)
    settings = section.account(account) if section else None
    if settings is None and account == DEFAULT:
        settings = section
    fields = {f"oauth.{key}": text.strip() for key, text in params.settings.items()}
    if "oauth.clientId" in fields:
        fields.setdefault(
            "oauth.clientSecret", ""
        )  # the present secret belongs to another application
    values = await signed_in(
        platform,
        settings,
        fields,
        call.context.clock,
        lambda url: call.respond({**response, "url": url}),
        attempt.pasted,
    )
    return {tuple(key.split(".")): value or MISSING for key, value in values.items()}


async def login_wait(call: Call, params: WaitParams) -> Json:
    """Returns the outcome of a login, or `waiting` at the end of the time.

    A failed login raises its refusal. An outcome is returned once.
    """
    login = _login(call, params.id)
    try:
        outcome = await login.outcome(params.timeout_ms / 1000)
    finally:
        if login.is_over:
            call.context.logins.pop(params.id, None)
    return outcome or {"status": "waiting"}


def login_answer(call: Call, params: AnswerParams) -> Json:
    """Passes the final address of the person's browser to a login."""
    _login(call, params.id).paste(params.answer)
    return {"ok": True}


def login_cancel(call: Call, params: LoginIdParams) -> Json:
    """Cancels a login; its wait returns a refusal."""
    _login(call, params.id).cancel()
    return {"ok": True}


def _login(call: Call, name: str) -> PendingLogin:
    login = call.context.logins.get(name)
    if login is None:
        raise RefusedError("Unknown login id; the login may have ended.", _START_AGAIN)
    return login


LOGIN_METHODS: Final = (
    Method("channels.login.start", StartParams, login_start, waits=True),
    Method("channels.login.wait", WaitParams, login_wait, waits=True),
    Method("channels.login.answer", AnswerParams, login_answer),
    Method("channels.login.cancel", LoginIdParams, login_cancel),
)
