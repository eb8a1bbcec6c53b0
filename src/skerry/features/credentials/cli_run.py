"""`skerry auth`: lists, enters, orders and removes credentials."""

import os
import sys
from argparse import Namespace
from collections.abc import Mapping
from datetime import UTC, datetime
from getpass import getpass
from typing import Any, Final

import anyio

from skerry.app.credential_files import Entered, Keeper, describe, problem
from skerry.app.trial import attempt_profile, first_model
from skerry.auth.credentials import vault_of
from skerry.auth.profiles import SECRETS, CredentialKind, Profile
from skerry.cli.failure import FailedError
from skerry.cli.render import notice, one_line, show, show_json, table
from skerry.client.client import GatewayClient
from skerry.client.discover import find
from skerry.client.models import model_status
from skerry.features.credentials.signin import sign_in
from skerry.infra.clock import SystemClock
from skerry.model.errors import ClientError, ConfigError, CredentialError, ModelError
from skerry.ports.model import RestingProfile

_EMPTY: Final = (
    "No credentials are stored. Keys in the environment (such as OPENAI_API_KEY) and in"
    " models.providers need no profile.\nEnter one: skerry auth add PROVIDER"
)


def run(arguments: Namespace) -> int:
    """Runs `skerry auth ...`; returns the exit code."""
    keeper = Keeper.of(os.environ, arguments.agent)
    match arguments.action:
        case "add":
            return _add(keeper, arguments)
        case "remove":
            removed = keeper.remove(arguments.profile)
            return _print_result(arguments, {"removed": removed.id}, f"{removed.id} was removed.")
        case "order":
            return _order(keeper, arguments)
        case "login":
            return _login(keeper, arguments)
        case _:
            return _list(keeper, arguments)


def _list(keeper: Keeper, arguments: Namespace) -> int:
    stored = keeper.profiles()
    rests = anyio.run(_resting, os.environ)
    rows = [_row(profile, keeper, rests) for profile in stored.profiles.values()]
    for text in stored.problems:
        notice(f"Skipped: {one_line(text)}")
    if arguments.json:
        order = {provider: list(ids) for provider, ids in stored.order.items()}
        show_json({"agent": keeper.agent, "profiles": rows, "order": order})
    elif not rows:
        show(_EMPTY)
    else:
        head = ("PROFILE", "PROVIDER", "TYPE", "SECRET IN", "STATE")
        keys = ("id", "provider", "type", "secretIn", "state")
        show(table([head, *(tuple(one_line(str(row[key])) for key in keys) for row in rows)]))
        for provider, ids in stored.order.items():
            show(f"order of {one_line(provider)}: {', '.join(map(one_line, ids))}")
    return 0


def _row(profile: Profile, keeper: Keeper, rests: list[RestingProfile]) -> dict[str, Any]:
    own_rests = [rest for rest in rests if rest.profile == profile.key]
    fault = problem(profile, keeper, SystemClock().now_ms())
    state = (
        fault
        or "; ".join(f"cools down for {rest.model}: {rest.reason}" for rest in own_rests)
        or "ready"
    )
    return {
        "id": profile.id,
        "provider": profile.provider,
        "type": profile.kind.value,
        "secretIn": describe(profile),
        "usable": not fault,
        "state": state,
        "expires": profile.expires,
        "resting": [
            {"model": rest.model, "reason": rest.reason, "until": rest.until} for rest in own_rests
        ],
    }


def _add(keeper: Keeper, arguments: Namespace) -> int:
    provider, _ = keeper.provider(arguments.provider)
    kind = CredentialKind(arguments.type)
    field = SECRETS[kind][0]
    secret = (
        f"${{{arguments.env}}}" if arguments.env else _entered_secret(f"{field} for {provider}: ")
    )
    if not secret:
        raise FailedError("No secret was entered.", "Type it, or pass it on stdin.", 2)
    entered = Entered(provider, arguments.name, kind, {field: secret}, plain=arguments.plain)
    took = None if arguments.no_test else _tried(keeper, entered, arguments.model)
    profile = keeper.keep(entered, SystemClock())
    if problem_now := problem(profile, keeper, SystemClock().now_ms()):
        notice(f"The credential cannot be used yet: {problem_now}")
    value = {"kept": profile.id, "secretIn": describe(profile), "tried": took is not None}
    answered = f"The model answered in {took / 1000:.1f} s. " if took is not None else ""
    measurements = {} if took is None else {"latencyMs": took}
    return _print_result(arguments, value | measurements, answered + _stored_text(profile))


def _tried(keeper: Keeper, entered: Entered, model: str) -> int | None:
    """Tries a credential with one short call; returns its milliseconds, None without a trial.

    Raises:
        ModelError: the trial failed; the error has a remedy, and nothing was stored.
    """
    profile = keeper.profile(entered, SystemClock())
    try:
        vault = vault_of(keeper.config, keeper.environ)
        secret = profile.secret(SECRETS[profile.kind][0], keeper.environ, vault)
    except CredentialError:
        return None  # a variable that only the gateway has; the profile stores its name
    name = entered.provider
    try:
        if not model and not keeper.has_model(name):
            model = anyio.run(first_model, keeper, profile, secret)
            if not model:
                notice(
                    f"Not tried: no model of {name} is configured, and {name} names none."
                    f" Try it: skerry auth add {name} --model MODEL"
                )
                return None
        notice(
            f"Testing the credential with one question to {f'{name}/{model}' if model else name}."
        )
        return anyio.run(attempt_profile, keeper, profile, secret, model)
    except ModelError as error:
        error.remedy = f"{error.remedy} Pass --no-test to store it without a trial."
        raise


def _stored_text(profile: Profile) -> str:
    return f"{profile.id} is stored ({describe(profile)}). A running gateway uses it from now on."


def _entered_secret(prompt: str) -> str:
    """Reads the secret from a hidden prompt, or from stdin."""
    if sys.stdin.isatty():
        return getpass(prompt).strip()
    return sys.stdin.readline(20_000).strip()


def _order(keeper: Keeper, arguments: Namespace) -> int:
    ids: list[str] | None = arguments.profiles or None
    if arguments.clear:
        ids = []
    order = keeper.order(arguments.provider, ids)
    text = ", ".join(order) or "The profiles alternate: the least recently used is next."
    return _print_result(arguments, {"provider": arguments.provider, "order": list(order)}, text)


def _login(keeper: Keeper, arguments: Namespace) -> int:
    profile = anyio.run(sign_in, keeper, arguments.provider, arguments.name, notice)
    text = _stored_text(profile)
    if profile.expires:
        end = datetime.fromtimestamp(profile.expires / 1000, UTC).astimezone()
        text += f" Its token is valid until {end:%Y-%m-%d %H:%M} and is renewed before then."
    return _print_result(arguments, {"kept": profile.id, "secretIn": describe(profile)}, text)


def _print_result(arguments: Namespace, value: Mapping[str, Any], text: str) -> int:
    if arguments.json:
        show_json(value)
    else:
        show(one_line(text))
    return 0


async def _resting(environ: Mapping[str, str]) -> list[RestingProfile]:
    """Returns the credentials that cool down in the running gateway; empty without one."""
    try:
        async with GatewayClient(find(environ)) as client:
            return list((await model_status(client)).resting)
    except (ConfigError, ClientError):
        return []
