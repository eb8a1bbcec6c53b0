"""`skerry channels`: accounts on chat platforms, and their states."""

import os
import sys
from argparse import Namespace
from getpass import getpass
from typing import Any, Final

import anyio

from skerry.cli.config_change import change
from skerry.cli.failure import FailedError
from skerry.cli.render import notice, one_line, show, show_json, table
from skerry.client.client import GatewayClient
from skerry.client.discover import find
from skerry.config.channels import DEFAULT, ChannelConfig
from skerry.config.load import load_good
from skerry.infra.channels import PLATFORMS, Platform
from skerry.infra.spelling import spelt_like

READ: Final = ("operator.read",)
ADMIN: Final = ("operator.admin",)


def run(arguments: Namespace) -> int:
    """Runs `skerry channels ...`; returns the exit code."""
    match arguments.action:
        case "list":
            return _list(arguments)
        case "status" | "restart":
            return anyio.run(_ask, arguments)
        case "add" | "login":
            return _enter(arguments)
        case _:
            return _take_away(arguments)


def _sections() -> dict[str, ChannelConfig]:
    return dict(load_good(os.environ, fetch=False).config.channels)


def _list(arguments: Namespace) -> int:
    rows = [
        {
            "channel": name,
            "account": account,
            "enabled": section.enabled and settings.enabled,
            "configured": settings.is_configured,
            "name": settings.name,
        }
        for name, section in _sections().items()
        for account in section.names
        if (settings := section.account(account)) is not None
    ]
    platforms = [{"channel": name, "label": platform.label} for name, platform in PLATFORMS.items()]
    if arguments.json:
        show_json({"accounts": rows, "platforms": platforms})
        return 0
    if rows:
        lines: list[tuple[str, ...]] = [("CHANNEL", "ACCOUNT", "STATE", "NAME")]
        lines += [
            (
                str(row["channel"]),
                str(row["account"]),
                _word(row),
                one_line(str(row["name"])) or "-",
            )
            for row in rows
        ]
        show(table(lines))
    else:
        show("No account is configured.")
    notice(f"Platforms: {', '.join(PLATFORMS)}. To add an account: skerry channels add CHANNEL")
    return 0


def _word(row: dict[str, Any]) -> str:
    if not row["configured"]:
        return "needs login"
    return "enabled" if row["enabled"] else "switched off"


def _platform(name: str) -> Platform:
    """Returns the platform of this name.

    Raises:
        FailedError: no platform has the name.
    """
    platform = PLATFORMS.get(name.lower())
    if platform is None:
        near = spelt_like(name.lower(), list(PLATFORMS))
        hint = f" Did you mean {near[0]!r}?" if near else ""
        listed = ", ".join(PLATFORMS)
        raise FailedError(f"Unknown platform {name!r}.{hint}", f"Platforms: {listed}.")
    return platform


def _path(platform: Platform, account: str, section: ChannelConfig | None) -> str:
    """Returns the key of an account: the default account uses the platform's own settings."""
    is_named = section is not None and account in section.accounts
    path = f"channels.{platform.name}"
    return path if account == DEFAULT and not is_named else f"{path}.accounts.{account}"


def _enter(arguments: Namespace) -> int:
    platform = _platform(arguments.channel)
    section = _sections().get(platform.name)
    is_there = section is not None and section.account(arguments.account) is not None
    if arguments.action == "login" and not is_there:
        message = f"Unknown account {platform.name}/{arguments.account}."
        remedy = f"Add it: skerry channels add {platform.name} --account {arguments.account}"
        raise FailedError(message, remedy)
    path = _path(platform, arguments.account, section)
    settings_given = dict(_setting(text) for text in arguments.set)
    settings = section.account(arguments.account) if section else None
    if settings is None and arguments.account == DEFAULT:
        settings = section  # an account with settings and without credentials
    entered = _entered(arguments, platform, settings, settings_given)
    values = {f"{path}.{key}": value for key, value in ({"enabled": True} | entered).items()}
    code = change(values, quiet=True)
    if code != 0:
        return code
    result = {"ok": True, "channel": platform.name, "account": arguments.account, "path": path}
    if arguments.json:
        show_json(result)
    else:
        show(f"{platform.label}: the account {arguments.account} is configured.")
        notice("Check the connection: skerry channels status --probe")
    return 0


def _entered(
    arguments: Namespace, platform: Platform, settings: Any, fields: dict[str, str]
) -> dict[str, Any]:
    """Returns the keys of the account to set: its credentials and further settings."""
    # Imported here because most accounts only have a token.
    if arguments.link:
        from skerry.features.channels.terminal_login import link  # noqa: PLC0415 - at first use

        return fields | link(platform, settings, fields)
    if arguments.oauth or getattr(settings, "oauth", None) is not None:
        from skerry.features.channels.terminal_login import sign_in  # noqa: PLC0415 - at first use

        further = {key: text for key, text in fields.items() if not key.startswith("oauth.")}
        return further | sign_in(platform, settings, arguments.oauth, fields)
    secrets = {}
    for number, (key, question) in enumerate(platform.section.login):
        secret = arguments.secret if number == 0 else None
        secrets[key] = fields.get(key, "") or _secret(secret, key, question)
    return fields | secrets


def _setting(text: str) -> tuple[str, str]:
    key, separator, setting = text.partition("=")
    if not separator or not key:
        raise FailedError(f"{text!r} is not a setting.", "Write: --set KEY=VALUE")
    return key, setting


def _secret(option: str | None, key: str, question: str) -> str:
    """Returns a credential: from the option, from stdin, or typed at the terminal.

    Raises:
        FailedError: no credential was entered.
    """
    if option is not None and option != "-":
        return option
    if option == "-" or not sys.stdin.isatty():
        text = sys.stdin.readline().strip()
    else:
        text = getpass(f"{question}: ").strip()
    if not text:
        remedy = f"Pass it with --secret, on stdin with --secret -, or --set '{key}=${{VARIABLE}}'."
        raise FailedError(f"{question}: nothing was entered.", remedy)
    return text


def _take_away(arguments: Namespace) -> int:
    platform = _platform(arguments.channel)
    section = _sections().get(platform.name)
    settings = section.account(arguments.account) if section else None
    if section is None or settings is None:
        message = f"Unknown account {platform.name}/{arguments.account}."
        raise FailedError(message, "List the accounts: skerry channels list")
    path = _path(platform, arguments.account, section)
    keys: list[str] = [f"{path}.{key}" for key, _ in platform.section.login]
    if getattr(settings, "oauth", None) is not None:
        keys.append(f"{path}.oauth.refreshToken")
    if arguments.action == "remove":
        # The settings of the platform are kept while other accounts use them.
        whole = arguments.account != DEFAULT or not section.accounts
        keys = [path] if whole else keys
    code = change(dict.fromkeys(keys), quiet=True)
    if code != 0:
        return code
    if arguments.json:
        show_json({"ok": True, "channel": platform.name, "account": arguments.account})
    else:
        outcome = "was removed" if arguments.action == "remove" else "has no credentials now"
        show(f"{platform.label}: the account {arguments.account} {outcome}.")
    return 0


async def _ask(arguments: Namespace) -> int:
    address = find(os.environ, url=arguments.url, token=arguments.token)
    is_restart = arguments.action == "restart"
    async with GatewayClient(address, scopes=ADMIN if is_restart else READ) as client:
        if is_restart:
            params = {"channel": arguments.channel, "accountId": arguments.account}
            answer = await client.request("channels.restart", params)
        else:
            filters: dict[str, Any] = {"probe": arguments.probe}
            if arguments.channel:
                filters["channel"] = arguments.channel
            answer = await client.request("channels.status", filters)
            if arguments.channel and arguments.channel not in answer["channelOrder"]:
                _platform(arguments.channel)
    if arguments.json:
        show_json(answer)
    elif is_restart:
        show(f"{arguments.channel}/{arguments.account} reconnects.")
    else:
        _show_status(answer)
    return 0


def _show_status(answer: dict[str, Any]) -> None:
    rows = [row for name in answer["channelOrder"] for row in answer["channelAccounts"][name]]
    if not rows:
        show("No account is configured.")
        notice(f"Platforms: {', '.join(PLATFORMS)}. To add an account: skerry channels add CHANNEL")
        return
    lines: list[tuple[str, ...]] = [("ACCOUNT", "STATE", "NAME")]
    for row in rows:
        name = f"{row['channel']}/{row['accountId']}"
        lines.append((one_line(name), row["state"], one_line(row["name"]) or "-"))
    show(table(lines))
    for row in rows:
        if row.get("about"):
            show(f"{row['channel']}/{row['accountId']}: {one_line(row['about'])}")
        if row["lastError"]:
            show(f"{row['channel']}/{row['accountId']}: {one_line(row['lastError'])}")
            if row["remedy"]:
                notice(one_line(row["remedy"]))
