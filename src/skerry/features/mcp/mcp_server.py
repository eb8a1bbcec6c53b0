"""One MCP server: its connection, the trust in its tools, and its state."""

import logging
import secrets
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.to_thread
from msgspec import Struct, field

from skerry.features.mcp import tables
from skerry.features.mcp.config import McpServerConfig
from skerry.features.mcp.late import sdk_client
from skerry.features.mcp.listed_tool import ListedTool, offered_names
from skerry.features.mcp.tables import StoredTool
from skerry.features.mcp.tool import McpTool
from skerry.infra.backoff import Rest
from skerry.infra.supervise import RESTARTS, Idle, first_of
from skerry.model.errors import StateError, ToolError
from skerry.policy.folding import visible
from skerry.sdk.tool_host import ToolHost
from skerry.store import Unit, audit

if TYPE_CHECKING:
    from skerry.features.mcp.call_result import McpResult
    from skerry.features.mcp.sdk_client import McpClient

logger = logging.getLogger(__name__)

MAX_TIMEOUTS: Final = 2
"""Calls in a row without a result in time after which the connection is opened anew."""
RELIST_SECONDS: Final = 600.0
"""Age of a list after which the tools are listed again before a call."""
MISSING_SDK: Final = "the SDK is not installed: pip install 'skerry[mcp]', then restart the gateway"
_MAX_REASON: Final = 300


class ServerDownError(Exception):
    """The server cannot be used now; the message has the reason."""


class _Opened(Struct):
    """One connection."""

    ready: anyio.Event = field(default_factory=anyio.Event)
    """Set when the tools are listed, or the connection has failed."""
    stop: anyio.Event = field(default_factory=anyio.Event)
    client: "McpClient | None" = None
    idle: Idle | None = None


class McpServer:
    """A configured server. It is started for the first list and for calls, and ended when idle."""

    def __init__(self, name: str, settings: McpServerConfig, host: ToolHost) -> None:
        self.name = name
        self.settings = settings
        self._host = host
        self._opened: _Opened | None = None
        self._opening = anyio.Lock()
        self._rest = Rest(RESTARTS)
        self._timeouts = 0
        self._is_stopped = False
        self._listed_at = 0.0
        self._tried = anyio.Event()
        """Set when the first attempt to list the tools has ended."""
        self._is_trying = False
        self._is_loaded = False
        self.is_listed = False
        """True when the tools were listed, now or by an earlier process."""
        self.stored: Sequence[StoredTool] = ()
        self.unusable: Sequence[str] = ()
        """Reasons why tools of the last list cannot be offered."""
        self.tools: Mapping[str, McpTool] = {}
        """Offered tools by their names for models."""
        self.reason = ""
        """Reason of the last failure; empty after a success."""

    @property
    def state(self) -> str:
        """Returns `connected`, `starting`, `failed` or `idle`."""
        if self._opened is not None:
            return "connected" if self._opened.client is not None else "starting"
        return "failed" if self.reason else "idle"

    @property
    def problems(self) -> Sequence[str]:
        """Returns the reason of a failure, and the tools that are held back."""
        held = ", ".join(row.name for row in self.stored if row.state in {"new", "changed"})
        texts = []
        if self.reason:
            texts.append(f"MCP server {self.name}: {self.reason}.")
        if held:
            texts.append(
                f"MCP server {self.name}: tools are held back until you trust them: {held}."
            )
        return texts

    async def load(self) -> bool:
        """Reads the stored list once; returns whether there is one."""
        if not self._is_loaded:
            self._put(await self._host.store.read(lambda reader: tables.stored(reader, self.name)))
            self._is_loaded = True
        return self.is_listed

    def begin(self) -> None:
        """Starts the server in the background, unless it runs or must wait after a failure."""
        if not self._is_trying and self._rest.over(self._host.clock.now_ms()):
            self._is_trying = True
            self._host.start(self._try, f"mcp list {self.name} {secrets.token_hex(4)}")

    async def first_attempt(self) -> None:
        """Waits until the first attempt to list the tools has ended."""
        await self._tried.wait()

    async def _try(self) -> None:
        try:
            await self.connected()
        except ServerDownError as error:
            logger.warning("mcp server %s: %s", self.name, error)
        finally:
            self._is_trying = False
            self._tried.set()

    def stop(self) -> None:
        """Ends the server for good."""
        self._is_stopped = True
        self.tools = {}
        self._tried.set()
        self._withdraw()

    def _withdraw(self) -> None:
        """Ends the connection; the next call opens another one, also while this one closes."""
        if self._opened is not None:
            self._opened.client = None
            self._opened.stop.set()

    async def connected(self) -> "McpClient":
        """Returns the connection, whose tools are listed; opens it if there is none.

        Raises:
            ServerDownError: the server cannot be reached, or failed a moment ago.
        """
        async with self._opening:
            if self._opened is not None and self._opened.client is not None:
                return self._opened.client
            if self._is_stopped:
                raise ServerDownError("it is not configured any more")
            now = self._host.clock.now_ms()
            if self._rest.failures and not self._rest.over(now):
                seconds = (self._rest.until - now) / 1000
                raise ServerDownError(f"{self.reason}; it is tried again in {seconds:.0f} s")
            return await self._open()

    async def _open(self) -> "McpClient":
        opened = self._opened = _Opened()
        self._host.start(partial(self._live, opened), f"mcp {self.name} {secrets.token_hex(4)}")
        try:
            with anyio.fail_after(self.settings.start_timeout_seconds):
                await opened.ready.wait()
        except TimeoutError:
            seconds = self.settings.start_timeout_seconds
            self.reason = f"it did not list its tools within {seconds:g} s"
        finally:
            if opened.client is None:
                opened.stop.set()
        if opened.client is None:
            raise ServerDownError(self.reason or "it ended")
        return opened.client

    async def _live(self, opened: _Opened) -> None:
        """Keeps one connection until it ends, is idle or `stop` is set."""
        began = anyio.current_time()
        try:
            await first_of(partial(self._serve, opened), opened.stop.wait)
        except Exception as error:  # noqa: BLE001 - a server fails in any way; the state has the reason
            self.reason = self._host.redact(reason_of(error))
        finally:
            if self._opened is opened:
                self._opened = None
            opened.client = None
            self._pause(anyio.current_time() - began)
            opened.ready.set()
            self._tried.set()

    async def _serve(self, opened: _Opened) -> None:
        """Connects, lists the tools, and serves calls until the connection is idle.

        Raises:
            Exception: the server cannot be reached, or ended; see `reason_of`.
        """
        await anyio.to_thread.run_sync(_import_sdk)
        async with sdk_client.connect(self.settings, self._host) as client:
            await self._accept(await client.listing())
            opened.idle = Idle(self.settings.idle_seconds)
            opened.client = client
            self.reason = ""
            opened.ready.set()
            self._tried.set()
            logger.info("mcp server %s: %d tools", self.name, len(self.tools))
            await first_of(partial(_withdraw_when_idle, opened), client.ended.wait)
            if client.ended.is_set():
                raise ServerDownError(client.end_reason)

    def _pause(self, lived: float) -> None:
        """Delays the next start of a failed server; after a long run the delay is the shortest."""
        if not self.reason:
            self._rest = Rest(RESTARTS)
            return
        rest = Rest(RESTARTS) if lived > RESTARTS.cap else self._rest
        self._rest = rest.after_failure(self._host.clock.now_ms())

    async def test(self) -> None:
        """Lists the tools now, also during the delay after a failure.

        Raises:
            ServerDownError: the server cannot be reached.
        """
        self._rest = Rest(RESTARTS)
        await self._refresh(await self.connected())

    async def _refresh(self, client: "McpClient") -> None:
        seconds = self.settings.start_timeout_seconds
        try:
            with anyio.fail_after(seconds):
                await self._accept(await client.listing())
        except TimeoutError:
            raise ServerDownError(f"it did not list its tools within {seconds:g} s") from None
        except StateError:
            raise
        except Exception as error:  # a server fails in any way
            raise ServerDownError(self._host.redact(reason_of(error))) from error

    async def _accept(self, listing: "tuple[Sequence[ListedTool], Sequence[str]]") -> None:
        """Stores a list; the first one is trusted, later ones only where they are the same.

        An empty list counts: a server that shows its tools later must not have them trusted unseen.
        """
        present, self.unusable = {tool.name: tool for tool in listing[0]}, listing[1]

        def write(unit: Unit) -> list[StoredTool]:
            is_first = tables.mark_listed(unit, self.name)
            before = {tool.name: tool for tool in tables.stored(unit, self.name)}
            rows = [
                merged(name, before.get(name), present.get(name), is_first=is_first)
                for name in sorted(before.keys() | present.keys())
            ]
            for row in rows:
                if row != before.get(row.name):
                    tables.put(unit, self.name, row)
            self._note(unit, before, rows)
            return rows

        self._put(await self._host.store.write(write))
        self._is_loaded = self.is_listed = True
        self._listed_at = anyio.current_time()

    def _note(
        self, unit: Unit, before: Mapping[str, StoredTool], rows: Sequence[StoredTool]
    ) -> None:
        """Adds the tools that are held back since this list to the audit log."""
        held = [
            row.name
            for row in rows
            if row.state in {"new", "changed"} and row != before.get(row.name)
        ]
        if held:
            facts = {"server": self.name, "tools": ", ".join(held)}
            audit.append(unit, self._host.clock.now_ms(), "mcp.held", facts)
            logger.warning(
                "mcp server %s: held back until `skerry mcp trust %s`: %s",
                *(self.name, self.name, ", ".join(held)),
            )

    async def trust(self, digests: Mapping[str, str], by: str) -> list[str]:
        """Trusts the present versions of tools with these digests; returns their names."""
        accepted: list[str] = []

        def write(unit: Unit) -> list[StoredTool]:
            rows = []
            accepted.clear()  # a unit may run twice
            for tool in tables.stored(unit, self.name):
                row = tool
                if tool.present and digests.get(tool.name) == tool.present.digest:
                    row = StoredTool(tool.name, tool.present, tool.present)
                    tables.put(unit, self.name, row)
                    accepted.append(tool.name)
                rows.append(row)
            facts = {"server": self.name, "tools": ", ".join(accepted), "by": by}
            audit.append(unit, self._host.clock.now_ms(), "mcp.trusted", facts)
            return rows

        self._put(await self._host.store.write(write))
        return accepted

    def _put(self, rows: Sequence[StoredTool]) -> None:
        self.stored, self.is_listed = rows, bool(rows)
        usable = [row.trusted for row in rows if row.trusted is not None and row.state == "trusted"]
        offered = [tool for tool in usable if self.settings.tools.offers(tool.name)]
        names = offered_names(self.name, [row.name for row in rows])
        if not self._is_stopped:
            self.tools = {
                names[tool.name]: McpTool(self, tool, names[tool.name]) for tool in offered
            }

    async def call(self, tool: ListedTool, arguments: dict[str, Any]) -> "McpResult":
        """Calls a tool and returns its outcome.

        Raises:
            ToolError: the server is down, the tool is held back, or the call failed.
        """
        seconds = self.settings.timeout_seconds
        try:
            with anyio.fail_after(seconds):
                return await self._call(tool, arguments)
        except TimeoutError:
            self._timeouts += 1
            if self._timeouts >= MAX_TIMEOUTS:
                self._timeouts = 0
                self._withdraw()
            raise ToolError(
                f"The MCP server {self.name} did not answer within {seconds:g} s."
                " The call may have had an effect."
            ) from None

    async def _call(self, tool: ListedTool, arguments: dict[str, Any]) -> "McpResult":
        try:
            client = await self.connected()
            if client.is_stale or anyio.current_time() - self._listed_at > RELIST_SECONDS:
                await self._refresh(client)
        except ServerDownError as error:
            raise ToolError(f"The MCP server {self.name} is not available: {error}.") from error
        if not self.trusts(tool):
            raise ToolError(
                f"The tool {tool.name} of the MCP server {self.name} has changed. It is held back"
                f" until your owner trusts it: skerry mcp trust {self.name}"
            )
        opened = self._opened
        if opened is None or opened.client is not client or opened.idle is None:
            raise ToolError(f"The MCP server {self.name} has ended. Try again.")
        with opened.idle.use():
            outcome = await client.call(tool.name, arguments)
        self._timeouts = 0
        return outcome

    def trusts(self, tool: ListedTool) -> bool:
        """Returns whether the present version of a tool is this trusted one."""
        row = next((row for row in self.stored if row.name == tool.name), None)
        return (
            row is not None
            and row.state == "trusted"
            and row.trusted is not None
            and row.trusted.digest == tool.digest
        )


async def _withdraw_when_idle(opened: _Opened) -> None:
    """Waits until the connection is idle; the next call then opens another one."""
    assert opened.idle is not None  # noqa: S101 - set before
    await opened.idle.over()
    opened.client = None  # before anything else runs: a call must not use what is being closed


def _import_sdk() -> None:
    """Imports the SDK, which takes half a second, in a thread."""
    sdk_client.connect  # noqa: B018 - imports the module


def reason_of(error: BaseException) -> str:
    """Returns the reason of a failed connection; of several errors the first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, ModuleNotFoundError):
        return MISSING_SDK
    text = " ".join(visible(str(error)).split())[:_MAX_REASON] or type(error).__name__
    return text.rstrip(".")


def merged(
    name: str, before: StoredTool | None, present: ListedTool | None, *, is_first: bool
) -> StoredTool:
    """Returns the versions of a tool after a list.

    A tool of the first list is trusted, unless its text looks like instructions to a model.
    """
    trusted = before.trusted if before else None
    if is_first and present is not None and not present.suspicions:
        trusted = present
    return StoredTool(name, trusted, present)


async def forget(host: ToolHost, server: str) -> None:
    """Removes the stored list of a server.

    Raises:
        StateError: the database cannot be written.
    """
    await host.store.write(lambda unit: tables.forget(unit, server))
