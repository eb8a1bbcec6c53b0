"""The tool `web_fetch`: returns a page as Markdown or text."""

import json
from typing import Any, Final, Literal

import anyio
import anyio.to_thread
from msgspec import Struct
from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from skerry.config.tools_web import MAX_CHARS, WebFetchConfig
from skerry.features.web.cache import Cache
from skerry.features.web.text import decoded, visible
from skerry.infra.clock import iso
from skerry.infra.expendable import Expendable, ExpendableError
from skerry.model.caller import Caller
from skerry.model.errors import ToolError
from skerry.model.origin import Origin
from skerry.model.tool import ToolResult, ToolSpec
from skerry.net.live_client import LiveClient
from skerry.net.safe_fetch import Fetched, FetchRequest, Outcome
from skerry.policy.access import Verb
from skerry.policy.network import NetworkRules
from skerry.policy.urls import Refusal, parse_url
from skerry.ports.tool import ToolContext
from skerry.sdk.tool_host import ToolHost

EXTRACT: Final = "skerry.features.web.extract_child:extract"
_EXTRACT_SECONDS: Final = 10
_WAIT_SECONDS: Final = 60
_ERROR_CHARS: Final = 4000
"""Maximum length of an error body for the model, in characters."""
_OK: Final = range(200, 300)
_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
_TEXTUAL: Final = frozenset(
    {"application/javascript", "application/xml", "application/yaml", "application/x-yaml", ""}
)
_ACCEPT: Final = "text/markdown, text/html;q=0.9, application/json;q=0.9, text/*;q=0.8, */*;q=0.1"
_MINUTE_MS: Final = 60_000

Mode = Literal["markdown", "text"]


class WebFetchParams(BaseModel):
    """Parameters of `web_fetch`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str = Field(min_length=1, max_length=8192)
    mode: Mode = Field(
        default="markdown", validation_alias=AliasChoices("extractMode", "extract_mode")
    )
    max_chars: int | None = Field(
        default=None, ge=100, le=MAX_CHARS, validation_alias=AliasChoices("maxChars", "max_chars")
    )


_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "url": {"type": "string"},
        "extractMode": {"type": "string", "enum": ["markdown", "text"]},
        "maxChars": {"type": "integer", "minimum": 100},
    },
    "required": ["url"],
    "additionalProperties": False,
}


class Page(Struct, frozen=True):
    """A page as text."""

    title: str
    text: str
    extractor: str
    """Source of the text: `article`, `body`, `json` or `raw`."""


class WebFetch:
    """Fetches public pages under the network policy; the result is foreign text."""

    reads_only = True
    verb = Verb.USE
    spec = ToolSpec("web_fetch", "Fetch a public web page as Markdown or text.", _SCHEMA)

    def __init__(self, host: ToolHost, client: LiveClient) -> None:
        self._host = host
        self._client = client
        self._cache = Cache()
        self._rules = NetworkRules()
        self._extract = Expendable(EXTRACT, cpu_seconds=_EXTRACT_SECONDS, environ=host.environ)
        self._threads = anyio.CapacityLimiter(4)

    @property
    def _config(self) -> WebFetchConfig:
        return self._host.config().tools.web.fetch

    def is_offered(self, _: Caller) -> bool:
        """Returns true when the configuration enables the tool."""
        return self._config.enabled

    async def run(self, arguments: dict[str, Any], _: ToolContext) -> ToolResult:
        """Returns the page as a JSON object with its text.

        Raises:
            ToolError: the policy refuses the address, or the page has no text.
        """
        params = WebFetchParams.model_validate(arguments)
        config = self._config
        rules = config.ssrf_policy.rules
        if rules != self._rules:
            self._cache.clear()  # cached pages may no longer be allowed
            self._rules = rules
        target = parse_url(params.url)
        if isinstance(target, Refusal):
            raise ToolError(f"{target.reason} [{target.rule}]")
        limit = min(params.max_chars or config.max_chars, config.max_chars_cap)
        key = (target.url, params.mode, limit)
        begin = self._host.clock.now_ms()
        if (cached := self._cache.get(key, begin)) is not None:
            return _tool_result(cached | {"cached": True})
        request = FetchRequest(
            target.url,
            headers={"accept": _ACCEPT, "user-agent": config.user_agent},
            max_bytes=config.max_response_bytes,
            seconds=config.timeout_seconds,
        )
        fetched = await self._client.fetch(request, rules)
        page = await self._page(fetched, params.mode)
        if fetched.status not in _OK:
            return _failed(fetched, page)
        now = self._host.clock.now_ms()
        result = _result(params, fetched, page, limit) | {
            "fetchedAt": iso(now),
            "tookMs": now - begin,
        }
        until = now + int(config.cache_ttl_minutes * _MINUTE_MS)
        self._cache.put(key, result, len(result["text"]), until, now)
        return _tool_result(result)

    async def _page(self, fetched: Fetched, mode: Mode) -> Page:
        is_cut = fetched.rule == "body-limit"
        if fetched.outcome is not Outcome.ALLOW and not is_cut:
            raise ToolError(f"The page cannot be fetched: {fetched.reason} [{fetched.rule}]")
        kind, charset = content_type(fetched.headers.get("content-type", ""))
        if kind in _HTML or (not kind and fetched.body[:256].lstrip()[:1] == b"<"):
            return await self._html(fetched, charset, mode)
        if kind == "application/json" or kind.endswith("+json"):
            text = decoded(fetched.body, charset, is_html=False)
            return Page("", visible(_pretty(text)), "json")
        if kind.startswith("text/") or kind in _TEXTUAL or kind.endswith("+xml"):
            if b"\0" in fetched.body[:1024] and "utf-16" not in charset.lower():
                raise ToolError(f"{fetched.final_url} is not text.")
            return Page("", visible(decoded(fetched.body, charset, is_html=False)), "raw")
        raise ToolError(f"{fetched.final_url} is {kind}, which is not text.")

    async def _html(self, fetched: Fetched, charset: str, mode: Mode) -> Page:
        html = visible(decoded(fetched.body, charset, is_html=True))
        job = (html, fetched.final_url, mode == "markdown")
        try:
            with anyio.fail_after(_WAIT_SECONDS):
                answer = await anyio.to_thread.run_sync(
                    self._extract, job, limiter=self._threads, abandon_on_cancel=True
                )
        except TimeoutError as error:
            raise ToolError("The page cannot be read: the extraction took too long.") from error
        except ExpendableError as error:
            raise ToolError(f"The page cannot be read: {error}.") from error
        match answer:
            case [str(title), str(text), str(extractor)]:
                return Page(visible(title)[:500], visible(text), extractor)
            case _:
                raise ToolError(
                    "The page cannot be read: the extraction returned an invalid result."
                )


def content_type(header: str) -> tuple[str, str]:
    """Returns the lower-case media type, and the charset, of a header."""
    kind, _, parameters = header.partition(";")
    charset = ""
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            charset = value.strip().strip('"')
    return kind.strip().lower(), charset


def _pretty(text: str) -> str:
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def _result(params: WebFetchParams, fetched: Fetched, page: Page, limit: int) -> dict[str, Any]:
    text = page.text[:limit]
    kind, _ = content_type(fetched.headers.get("content-type", ""))
    is_cut = len(page.text) > limit or fetched.truncated
    result: dict[str, Any] = {
        "url": params.url,
        "finalUrl": fetched.final_url,
        "status": fetched.status,
        "contentType": kind,
        "extractMode": params.mode,
        "extractor": page.extractor,
        "externalContent": {"untrusted": True, "source": "web_fetch", "wrapped": True},
        "truncated": is_cut,
        "length": len(text),
        "rawLength": len(page.text),
        "text": text,
    }
    if page.title:
        result["title"] = page.title
    if fetched.truncated:
        result["warning"] = f"Only the first {len(fetched.body)} bytes of the page were read."
    return result


def _tool_result(result: dict[str, Any]) -> ToolResult:
    """Returns the result: for the model with the text last, for clients without the text."""
    details = {key: value for key, value in result.items() if key != "text"}
    fields = details | {"text": result["text"]}
    return ToolResult(json.dumps(fields, ensure_ascii=False), origin=Origin.WEB, details=details)


def _failed(fetched: Fetched, page: Page) -> ToolResult:
    text = f"{fetched.final_url} answered {fetched.status}.\n\n{page.text[:_ERROR_CHARS]}"
    details = {"status": fetched.status, "finalUrl": fetched.final_url}
    return ToolResult(text.strip(), is_error=True, origin=Origin.WEB, details=details)
