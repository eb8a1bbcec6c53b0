"""The tool `browser`: its offer, its gate, and its calls."""

import hashlib
import os
from typing import TYPE_CHECKING, Any, Final

import anyio
import msgspec
from pydantic import ValidationError

from skerry.features.browser import parameters
from skerry.features.browser.late import actions, browsers, cdp
from skerry.features.browser.late import config as sections
from skerry.model.caller import Caller
from skerry.model.errors import ToolError
from skerry.model.origin import Origin
from skerry.model.tool import ToolResult, ToolSpec
from skerry.net.connect import CheckedConnect
from skerry.net.dns import SystemResolver
from skerry.policy.access import Verb
from skerry.policy.effect import ToolEffect
from skerry.ports.tool import ApprovalSubject, Assessment, ToolContext
from skerry.sdk.tool_host import ToolHost

if TYPE_CHECKING:
    from skerry.features.browser.browser import Browser
    from skerry.features.browser.browsers import Browsers
    from skerry.features.browser.config import BrowserConfig
    from skerry.features.browser.parameters import BrowserParams
    from skerry.features.browser.traffic import Dialer

SECTION: Final = "browser"
START_EXTRA: Final = 60.0
"""Seconds that a call may wait for the start of the browser, in addition to its limit."""
_URL: Final = 500


class BrowserTool:
    """Reads and uses web pages. The text of a page is foreign; an input to a page is an effect.

    Only the owner's runs get the tool. In a run that has read text from others, a person approves
    each input; the approval holds for the page and the element that the person was shown.
    """

    verb = Verb.USE
    spec = ToolSpec("browser", parameters.DESCRIPTION, parameters.SCHEMA)

    def __init__(self, host: ToolHost, dialer: "Dialer | None" = None) -> None:
        self._host = host
        self._dialer = dialer or _checked()
        self._browsers: Browsers | None = None

    @property
    def _settings(self) -> "BrowserConfig":
        config = self._host.config()
        section = config.own_section(sections.BrowserConfig) if self._is_configured else None
        return section or sections.BrowserConfig.model_construct()

    @property
    def _is_configured(self) -> bool:
        return SECTION in self._host.config().model_fields_set

    def is_offered(self, _: Caller) -> bool:
        """Returns true when the configuration enables the tool."""
        return self._is_configured and self._settings.enabled

    def reads(self, arguments: dict[str, Any]) -> bool:
        """Returns true for a call that sends no input to a page; false if it is not valid."""
        try:
            return parameters.parsed(arguments).reads
        except (ToolError, ValidationError):
            return False

    async def assess(self, arguments: dict[str, Any], context: ToolContext) -> Assessment:
        """Returns the decision on a call; an approval is bound to the page and the element.

        Raises:
            ToolError: the page or the element does not exist.
        """
        params = parameters.parsed(arguments)
        if params.reads:
            return Assessment(ToolEffect.ALLOW, "browser-read")
        subject = self._subject(params, context)
        return Assessment(ToolEffect.ALLOW, "browser-act", subject=subject)

    def _subject(self, params: "BrowserParams", context: ToolContext) -> ApprovalSubject:
        caller = _caller(context)
        browser = self._running(caller)
        if browser is None:
            raise ToolError("No page is open. Use open with a url first.")
        tab = actions.tab_of(browser, params)
        element = actions.element_of(tab, params) if params.ref else None
        about = "" if element is None else f" {element.role} {element.name!r} [{element.ref}]"
        facts = [
            *(str(caller.key), tab.target, tab.document, tab.url),
            *((str(element.node), element.role, element.name) if element else ()),
            params.model_dump_json(),
        ]
        digest = hashlib.sha256(msgspec.json.encode(facts)).digest()
        command = f"browser: {params.summary}{about} on {tab.url[:_URL]}"
        return ApprovalSubject(command, binding=digest)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Returns the result of the call.

        Raises:
            ToolError: the call cannot be made; the message has the remedy.
        """
        params, caller = parameters.parsed(arguments), _caller(context)
        settings = self._settings
        if params.action == "status":
            return self._status(caller)
        if params.action == "stop":
            ran = await self._all.stop(caller.key.agent)
            text = "The browser has ended." if ran else "No browser runs."
            return ToolResult(text, origin=Origin.LOCAL)
        if params.action in {"tabs", "focus", "close"} and self._running(caller) is None:
            return ToolResult("No browser runs: no tab is open.", origin=Origin.LOCAL)
        seconds = settings.timeout_seconds + START_EXTRA
        try:
            with anyio.fail_after(max(seconds, params.seconds + START_EXTRA)):
                return await self._call(params, context)
        except TimeoutError:
            raise ToolError(
                f"The page did not answer within {settings.timeout_seconds:g} s. It may have been"
                " changed. Take a new snapshot, or close the tab."
            ) from None

    async def _call(self, params: "BrowserParams", context: ToolContext) -> ToolResult:
        settings, caller = self._settings, _caller(context)
        limits = actions.CallLimits(settings.timeout_seconds, settings.snapshot_max_chars)
        try:
            async with self._all.used(caller.key.agent) as browser, browser.lock:
                with anyio.fail_after(max(settings.timeout_seconds, params.seconds + 1)):
                    self._check(params, context)
                    return await actions.Actions(browser, limits).make(params)
        except browsers.BrowserDownError as error:
            raise ToolError(str(error)) from error
        except cdp.CdpError as error:
            raise ToolError(f"The call failed: {error}. Take a new snapshot.") from error

    def _check(self, params: "BrowserParams", context: ToolContext) -> None:
        """Raises `ToolError` when the page is not the one that the gate has seen."""
        seen = context.assessment.subject if context.assessment else None
        if params.reads or seen is None:
            return
        if self._subject(params, context).binding != seen.binding:
            raise ToolError("The page has changed since the decision. Take a new snapshot.")

    def _status(self, caller: Caller) -> ToolResult:
        browser = self._running(caller)
        if browser is None:
            return ToolResult("No browser runs. Use open with a url.", origin=Origin.LOCAL)
        text = f"{browser.version} runs; tabs: {len(browser.tabs)}"
        return ToolResult(text, origin=Origin.LOCAL)

    def _running(self, caller: Caller) -> "Browser | None":
        return self._browsers.running(caller.key.agent) if self._browsers is not None else None

    @property
    def _all(self) -> "Browsers":
        if self._browsers is None:
            self._browsers = browsers.Browsers(
                self._host,
                self._dialer,
                lambda: self._host.config().tools.web.fetch.ssrf_policy.rules,
                lambda: self._settings,
                is_root=os.geteuid() == 0,
            )
        return self._browsers


def _checked() -> "Dialer":
    """Returns a dialer that resolves names once for each connection."""
    resolve = SystemResolver()
    return lambda rules: CheckedConnect(rules, resolve)


def _caller(context: ToolContext) -> Caller:
    if context.caller is None:
        raise ToolError("The call has no conversation.")
    return context.caller
