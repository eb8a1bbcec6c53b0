"""Parts of the commands on skills: the client, findings and questions."""

import os
import sys
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final

from msgspec.structs import replace

from skerry.cli.failure import FailedError
from skerry.cli.render import notice, one_line, styled
from skerry.config.load import load_good
from skerry.config.root import Config
from skerry.features.skill_registry.config import SkillRegistryConfig
from skerry.features.skill_registry.registry_client import RegistryClient
from skerry.features.skill_registry.scan import Finding, Severity
from skerry.net.safe_fetch import SafeClient
from skerry.policy.urls import Refusal, parse_url

TOKEN: Final = "CLAWHUB_TOKEN"  # noqa: S105 - the name of the variable
_USAGE: Final = 2


def read_config(*, fetch: bool = False) -> Config:
    """Returns the configuration; `fetch` also reads secrets from files and programs."""
    return load_good(os.environ, fetch=fetch).config


def registry_config(config: Config) -> SkillRegistryConfig:
    """Returns the section `skills.registry`."""
    return config.skills.section(SkillRegistryConfig)


def registry_url(config: Config) -> str:
    """Returns the address of the registry, without a final slash."""
    return str(registry_config(config).url).rstrip("/")


def token_of(config: Config) -> str:
    """Returns the token of the owner's account.

    Raises:
        FailedError: there is none.
    """
    stored = registry_config(config).token
    token = stored.get_secret_value() if stored is not None else os.environ.get(TOKEN, "")
    if not token.strip():
        raise FailedError(
            f"There is no token for {registry_url(config)}.",
            f"Create one on its page, then set {TOKEN} or skills.registry.token.",
        )
    return token.strip()


@asynccontextmanager
async def registry(config: Config, token: str = "") -> AsyncGenerator[RegistryClient]:
    """Yields a client of the configured registry, which may have a local address."""
    url = registry_url(config)
    target = parse_url(url)
    if isinstance(target, Refusal):
        raise FailedError(f"skills.registry.url is refused: {target.reason}", "Correct it.")
    rules = config.tools.web.fetch.ssrf_policy.rules
    named = rules.allowed_hosts | {(target.host, target.port)}
    # The list of hosts limits what agents fetch; this address is the owner's.
    rules = replace(rules, allowed_hosts=named, only_hosts=())
    async with SafeClient(rules, idle_limit=1) as http:
        yield RegistryClient(http, url, token)


def show_findings(findings: Iterable[Finding]) -> None:
    """Prints findings on stderr."""
    for finding in findings:
        is_severe = finding.severity is Severity.SEVERE
        label = styled(finding.severity.value, "red" if is_severe else "yellow", sys.stderr)
        at = f"{finding.path}:{finding.line}" if finding.line else finding.path
        notice(f"  {label} {one_line(at)}: {one_line(finding.reason)} [{finding.rule}]")
        if finding.excerpt:
            notice(f"      {one_line(finding.excerpt)}")


def finding_rows(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """Returns findings as objects for JSON."""
    return [
        {
            "severity": finding.severity.value,
            "rule": finding.rule,
            "path": finding.path,
            "line": finding.line,
            "reason": finding.reason,
        }
        for finding in findings
    ]


def confirm(question: str, refusal: str) -> None:
    """Asks a person; only yes continues.

    Raises:
        FailedError: the answer was no, or stdin is not a terminal.
    """
    if not sys.stdin.isatty():
        raise FailedError(
            f"{refusal} without confirmation: stdin is not a terminal.", "Pass --yes.", _USAGE
        )
    notice(question)
    try:
        answer = input("[y/N] ")
    except EOFError:
        answer = ""
    if answer.strip().lower() not in {"y", "yes"}:
        raise FailedError("Nothing was changed: the answer was not yes.", "Repeat and answer y.")
