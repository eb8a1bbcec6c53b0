"""Methods for the credentials of accounts: list the required ones, enter and remove them."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import Field

from skerry.config.channels import DEFAULT, AccountName, ChannelAccount, ChannelConfig
from skerry.config.expand import Expanded
from skerry.config.paths import MISSING, KeyPath, replaced
from skerry.config.source import Source
from skerry.gateway.config_writes import written
from skerry.gateway.frames import Json
from skerry.gateway.method import Call, Method, Name, NoParams, Params, RefusedError
from skerry.infra.channels import PLATFORMS, Platform
from skerry.infra.spelling import spelt_like
from skerry.model.errors import ConfigError
from skerry.ports.channel import Channels

Credential = Annotated[str, Field(min_length=1, max_length=8192)]


class AccountParams(Params):
    """Parameters of a method about one account."""

    channel: Name
    account_id: Name | None = None


class LoginParams(Params):
    """Parameters of `channels.login`; `channels.platforms` lists the keys of `credentials`."""

    channel: Name
    account_id: Annotated[AccountName, Field(max_length=32)] | None = None
    credentials: Annotated[dict[Name, Credential], Field(min_length=1, max_length=16)]


async def channels_platforms(_call: Call, _params: NoParams) -> Json:
    """Returns the platforms of this gateway, and the credentials that each requires.

    `elsewhere` lists the logins that a person completes in a browser or on a phone.
    """
    return {
        "platforms": [
            {
                "channel": platform.name,
                "label": platform.label,
                "login": [
                    {"key": key, "question": question} for key, question in platform.section.login
                ],
                "elsewhere": [
                    {
                        "kind": kind,
                        "asks": [{"key": key, "question": text} for key, text in credentials],
                    }
                    for kind, credentials in platform.section.login_elsewhere.items()
                ],
            }
            for platform in PLATFORMS.values()
        ]
    }


async def channels_login(call: Call, params: LoginParams) -> Json:
    """Writes the credentials of an account into the configuration, which connects it.

    Other settings are not changed. References to variables are refused: the value of a variable
    could be sent to a stranger.
    """
    platform = platform_named(params.channel)
    required = [key for key, _ in platform.section.login]
    unknown_keys = sorted(params.credentials.keys() - set(required))
    missing = [key for key in required if key not in params.credentials]
    if unknown_keys or missing:
        listed = ", ".join(required) or "none"
        raise RefusedError(
            f"{platform.label} requires these credentials: {listed}.",
            f"Unknown: {', '.join(unknown_keys) or 'none'}; missing: {', '.join(missing)}.",
        )
    account = params.account_id or DEFAULT
    values: dict[KeyPath, str] = {(key,): params.credentials[key].strip() for key in required}
    return await entered(call, platform, account, values, "channels.login")


async def entered(
    call: Call, platform: Platform, account: str, values: Mapping[KeyPath, Any], method: str
) -> Json:
    """Writes keys of an account, which connects it; `MISSING` removes a key."""
    path = _path(platform, account, section_of(call, platform))
    changes = {(*path, *key): value for key, value in ({("enabled",): True} | dict(values)).items()}

    def edit(before: Source, _: Expanded) -> dict[str, Any]:
        tree: Any = before.parsed
        for key, value in changes.items():
            tree = replaced(tree, key, value)
        return dict(tree)

    await _write(call, edit, method, list(changes))
    return {"channel": platform.name, "accountId": account, "ok": True}


async def channels_logout(call: Call, params: AccountParams) -> Json:
    """Removes the credentials of an account from the configuration, which disconnects it."""
    platform, account = PLATFORMS.get(params.channel), params.account_id or DEFAULT
    section = section_of(call, platform) if platform else None
    settings = section.account(account) if section else None
    if platform is None or section is None or settings is None:
        raise unknown_account(channels_of(call), params.channel, account)
    path = _path(platform, account, section)
    removed: list[KeyPath] = [(*path, name) for name in _credentials(settings)]
    if getattr(settings, "oauth", None) is not None:
        removed.append((*path, "oauth", "refreshToken"))

    def edit(before: Source, _: Expanded) -> dict[str, Any]:
        tree: Any = before.parsed
        for key in removed:
            tree = replaced(tree, key, MISSING)
        return dict(tree)

    await _write(call, edit, "channels.logout", removed)
    cleared = {"channel": params.channel, "accountId": account}
    return {**cleared, "cleared": True, "loggedOut": True}


async def _write(call: Call, edit: Any, method: str, keys: list[KeyPath]) -> None:
    also = tuple(tuple(map(str, key)) for key in keys)
    # The first key of a platform creates its section; that of an account also the section above.
    sections = {key[:depth] for key in also for depth in range(2, len(key))}
    try:
        await written(call, edit, method, also=(*also, *sorted(sections)))
    except ConfigError as error:
        raise RefusedError(str(error), getattr(error, "remedy", "")) from error


def platform_named(name: str) -> Platform:
    """Returns the platform of this name.

    Raises:
        RefusedError: no platform has the name.
    """
    platform = PLATFORMS.get(name)
    if platform is None:
        near = spelt_like(name, list(PLATFORMS))
        hint = f" Did you mean {near[0]!r}?" if near else ""
        listed = ", ".join(PLATFORMS)
        raise RefusedError(f"Unknown platform {name!r}.{hint}", f"Platforms: {listed}.")
    return platform


def section_of(call: Call, platform: Platform) -> ChannelConfig | None:
    """Returns the settings of a platform; None where the configuration has none."""
    section = call.context.config().channels.get(platform.name)
    return section if isinstance(section, ChannelConfig) else None


def _path(platform: Platform, account: str, section: ChannelConfig | None) -> KeyPath:
    """Returns the key path of an account; the default account uses the platform's own settings."""
    path: KeyPath = ("channels", platform.name)
    is_named = section is not None and account in section.accounts
    return path if account == DEFAULT and not is_named else (*path, "accounts", account)


def _credentials(settings: ChannelAccount) -> list[str]:
    return [name for name, _ in settings.login]


def channels_of(call: Call) -> Channels:
    """Returns the accounts of the gateway.

    Raises:
        RefusedError: the gateway has no channels.
    """
    if call.context.channels is None:
        raise RefusedError("This gateway has no channels.")
    return call.context.channels


def unknown_account(channels: Channels, channel: str, account: str) -> RefusedError:
    """Returns the refusal of a method that names an unknown account."""
    accounts = [f"{report.channel}/{report.account}" for report in channels.reports()]
    near = spelt_like(f"{channel}/{account}", accounts)
    hint = f" Did you mean {near[0]}?" if near else ""
    if not channel:
        return RefusedError(
            "No account of a chat platform is configured.", "Add it with `skerry channels add`."
        )
    listed = ", ".join(accounts)
    message = f"No account {channel}/{account} is connected.{hint} Accounts: {listed}."
    return RefusedError(message, "Add it with `skerry channels add`.")


ACCOUNT_METHODS: Final = (
    Method("channels.login", LoginParams, channels_login),
    Method("channels.logout", AccountParams, channels_logout),
    Method("channels.platforms", NoParams, channels_platforms),
)
