"""Logins that a person carries out elsewhere, started over the wire: in a browser, or on a phone.

`channels.login.start` works until the login is over, in the connection of its client, and ends with
it. Its first response has the address; `channels.login.wait` asks for the outcome.
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

MOST: Final = 4
"""Logins of one gateway that are under way at once."""
SECONDS: Final = 660
"""Time for a login; a sign-in and a phone have less."""
WAIT_MS: Final = 25_000
"""Longest wait for an outcome, after which the client asks again."""
_AGAIN: Final = "Start the login again."


class StartParams(Params):
    """Parameters of `channels.login.start`; `settings` has what `channels.platforms` asks for."""

    channel: Name
    account_id: Annotated[AccountName, Field(max_length=32)] | None = None
    kind: Literal["oauth", "qr"]
    settings: Annotated[dict[Name, Credential], Field(max_length=16)] = Field(default_factory=dict)


class LoginIdParams(Params):
    """Parameters of a method about one login."""

    id: Name


class AnswerParams(LoginIdParams):
    """Parameters of `channels.login.answer`."""

    answer: Annotated[str, Field(min_length=1, max_length=16_384)]


class WaitParams(LoginIdParams):
    """Parameters of `channels.login.wait`."""

    timeout_ms: Annotated[int, Field(ge=0, le=WAIT_MS)] = WAIT_MS


class LoginAttempt:
    """One login: what a person pasted, and its outcome."""

    def __init__(self) -> None:
        self.scope: Final = anyio.CancelScope()
        self._text = ""
        self._pasted = anyio.Event()
        self._over = anyio.Event()
        self._outcome: Json | ErrorShape = None

    @property
    def is_over(self) -> bool:
        """Returns whether there is an outcome."""
        return self._over.is_set()

    def paste(self, text: str) -> None:
        """Gives it the address at which the browser of the person ended; the first one counts."""
        if not self._pasted.is_set():
            self._text = text
            self._pasted.set()

    async def pasted(self) -> str:
        """Returns the address that a person pasted."""
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
        """Returns the result, None if there is none within so many seconds; raises its failure."""
        with anyio.move_on_after(seconds):
            await self._over.wait()
        if isinstance(self._outcome, ErrorShape):
            raise RefusedError.of(self._outcome)
        return self._outcome


async def login_start(call: Call, params: StartParams) -> Json:
    """Starts a login, which ends with the connection of its client.

    The first response has its `id` and the `url` for a browser, or the `uri` for a phone with the
    `image` of its code; the last one has the account.
    """
    platform = platform_named(params.channel)
    _check(platform, params)
    name, attempt = _added(call.context.logins)
    try:
        attempt.end(await _result(call, platform, params, name, attempt))
    finally:
        if not attempt.is_over:
            # Its client is away, so nobody asks for the outcome.
            attempt.end(RefusedError("The login ended with its client.", _AGAIN).shape)
            call.context.logins.pop(name, None)
    return await attempt.outcome(0)


def _check(platform: Platform, params: StartParams) -> None:
    kinds = platform.section.login_elsewhere
    if params.kind not in kinds:
        listed = ", ".join(kinds) or "none"
        message = f"{platform.label} has no login of the kind {params.kind!r}; it has: {listed}."
        raise RefusedError(message, "Enter its credentials: `channels.login`.")
    known = [key for key, _ in kinds[params.kind]]
    if strange := sorted(params.settings.keys() - set(known)):
        listed = ", ".join(known) or "none"
        raise RefusedError(f"Unknown settings: {', '.join(strange)}.", f"It takes: {listed}.")


def _added(logins: dict[str, PendingLogin]) -> tuple[str, LoginAttempt]:
    """Returns a new login; forgets outcomes that nobody asked for where there are too many."""
    for name in [name for name, login in logins.items() if login.is_over]:
        if len(logins) >= MOST:
            del logins[name]
    if len(logins) >= MOST:
        message = f"{MOST} logins are under way, which is the most."
        remedy = "Finish or cancel one of them."
        raise RefusedError(message, remedy, code=ErrorCode.UNAVAILABLE, retryable=True)
    name = secrets.token_urlsafe(16)
    attempt = LoginAttempt()
    logins[name] = attempt
    return name, attempt


async def _result(
    call: Call, platform: Platform, params: StartParams, name: str, attempt: LoginAttempt
) -> Json | ErrorShape:
    shown: dict[str, Json] = {"status": "accepted", "id": name, "kind": params.kind}
    account = params.account_id or DEFAULT
    carry_out = _by_code if params.kind == "qr" else _by_browser
    try:
        with attempt.scope, anyio.fail_after(SECONDS):
            values = await carry_out(call, platform, params, attempt, shown)
            done = await entered(call, platform, account, values, "channels.login.start")
            return {"status": "done", **done}
    except TimeoutError:
        return RefusedError(f"The login took more than {SECONDS} s.", _AGAIN).shape
    except RefusedError as error:
        return error.shape
    except SkerryError as error:
        # The remedy of a sign-in names the command of another one.
        remedy = _AGAIN if "skerry auth" in error.remedy else error.remedy
        return RefusedError(str(error), remedy).shape
    return RefusedError("The login was cancelled.", _AGAIN).shape


async def _by_code(
    call: Call, platform: Platform, params: StartParams, _: LoginAttempt, shown: dict[str, Json]
) -> Mapping[KeyPath, Any]:
    section = section_of(call, platform)
    settings = section.account(params.account_id or DEFAULT) if section else None

    def show(uri: str) -> None:
        code = segno.make(uri, error="l", micro=False)
        image = code.svg_data_uri(scale=4, border=4, light="white")
        call.respond({**shown, "uri": uri, "image": image})

    values = await linked(platform, settings or section, {}, show)
    return {(key,): value for key, value in values.items()}


async def _by_browser(
    call: Call,
    platform: Platform,
    params: StartParams,
    attempt: LoginAttempt,
    shown: dict[str, Json],
) -> Mapping[KeyPath, Any]:
    account = params.account_id or DEFAULT
    section = section_of(call, platform)
    settings = section.account(account) if section else None
    if settings is None and account == DEFAULT:
        settings = section
    given = {f"oauth.{key}": text.strip() for key, text in params.settings.items()}
    if "oauth.clientId" in given:
        given.setdefault("oauth.clientSecret", "")  # the present one is another application's
    values = await signed_in(
        platform,
        settings,
        given,
        call.context.clock,
        lambda url: call.respond({**shown, "url": url}),
        attempt.pasted,
    )
    return {tuple(key.split(".")): value or MISSING for key, value in values.items()}


async def login_wait(call: Call, params: WaitParams) -> Json:
    """Returns the outcome of a login, or `waiting` where there is none in time.

    It refuses as the login did. An outcome is given once.
    """
    login = _login(call, params.id)
    try:
        outcome = await login.outcome(params.timeout_ms / 1000)
    finally:
        if login.is_over:
            call.context.logins.pop(params.id, None)
    return outcome or {"status": "waiting"}


def login_answer(call: Call, params: AnswerParams) -> Json:
    """Gives a login the address at which the browser of the person ended."""
    _login(call, params.id).paste(params.answer)
    return {"ok": True}


def login_cancel(call: Call, params: LoginIdParams) -> Json:
    """Ends a login; its wait is answered with a refusal."""
    _login(call, params.id).cancel()
    return {"ok": True}


def _login(call: Call, name: str) -> PendingLogin:
    login = call.context.logins.get(name)
    if login is None:
        raise RefusedError("There is no such login; it may have ended.", _AGAIN)
    return login


LOGIN_METHODS: Final = (
    Method("channels.login.start", StartParams, login_start, waits=True),
    Method("channels.login.wait", WaitParams, login_wait, waits=True),
    Method("channels.login.answer", AnswerParams, login_answer),
    Method("channels.login.cancel", LoginIdParams, login_cancel),
)
