"""Gateway methods of the plugin, which the commands `skerry memwal ...` and clients call."""

import hashlib
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from skerry.sdk.api import PluginApi
from skerry.sdk.errors import PluginError, SkerryError
from skerry.sdk.methods import MethodCall
from skerry_memwal.backend import Backend
from skerry_memwal.client import Client, MemWalError
from skerry_memwal.injection import is_injection
from skerry_memwal.options import Keys
from skerry_memwal.outbox import Outbox
from skerry_memwal.relayer import Relayer

READ: Final = "operator.read"
WRITE: Final = "operator.write"
MAX_TEXT: Final = 65_536


class Params(BaseModel):
    """Parameters of all methods; each uses some of them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    agent: str = Field(default="main", min_length=1, max_length=256)
    query: str = Field(default="", max_length=8000)
    """Text that `search` compares with."""
    limit: int = Field(default=5, ge=1, le=100)
    text: str = Field(default="", max_length=MAX_TEXT)
    """Text that `remember` stores."""
    phrases: list[str] = Field(default_factory=list, max_length=20)
    """Words that `forget` erases."""
    ids: list[str] = Field(default_factory=list, max_length=1000)
    """Ids of `search` that `forget` erases."""


class Methods:
    """Answers the methods."""

    def __init__(self, relayer: Relayer, outbox: Outbox, backend: Backend) -> None:
        self._relayer = relayer
        self._outbox = outbox
        self._backend = backend

    def register(self, api: PluginApi) -> None:
        """Registers the methods."""
        api.register_gateway_method("search", Params, self.search, scope=READ)
        api.register_gateway_method("stats", Params, self.stats, scope=READ)
        api.register_gateway_method("status", Params, self.status, scope=READ)
        api.register_gateway_method("keys", Params, self.keys, scope=READ)
        api.register_gateway_method("export", Params, self.export)
        api.register_gateway_method("remember", Params, self.remember, scope=WRITE)
        api.register_gateway_method("forget", Params, self.forget)

    async def search(self, params: Params, _: MethodCall) -> list[dict[str, Any]]:
        """Returns the memories nearest to a text, as they are stored."""
        if not params.query:
            raise PluginError("The search has no query.", "Name a text as `query`.")
        client, namespace = self._of(params.agent)
        try:
            memories = await client.recall(params.query, params.limit, namespace)
        except MemWalError as error:
            raise _plugin_error(error) from error
        return [
            {
                "text": memory.text,
                "blob_id": memory.blob_id,
                "relevance": round(memory.relevance, 2),
            }
            for memory in memories
        ]

    async def stats(self, params: Params, _: MethodCall) -> dict[str, Any]:
        """Returns the state of the server and the options of an agent."""
        client, namespace = self._of(params.agent)
        options = self._relayer.options
        keys = options.keys_of(params.agent)
        try:
            health = await client.health()
        except MemWalError as error:
            raise _plugin_error(error) from error
        return {
            "server": options.server_url,
            "status": health.status,
            "version": health.version,
            "key": keys.preview,
            "account": f"{keys.account_id[:10]}...",
            "namespace": namespace,
            "autoRecall": options.auto_recall,
            "autoCapture": options.auto_capture,
        }

    async def status(self, params: Params, _: MethodCall) -> dict[str, Any]:
        """Returns whether the memory works, and the remedy if it does not."""
        state = await self._backend.status(params.agent)
        waiting, refused = await self._outbox.counts()
        return {
            "ok": state.is_ok,
            "text": state.text,
            "remedy": state.remedy,
            "memories": state.count,
            "waiting": waiting,
            "refused": refused,
        }

    async def keys(self, _: Params, __: MethodCall) -> list[dict[str, Any]]:
        """Returns the keys by agent, masked."""
        options = self._relayer.options

        def row(agent: str, keys: Keys) -> dict[str, Any]:
            public = self._relayer.client(agent).signer.public_key
            namespace = self._relayer.namespace(agent)
            return {
                "agent": agent,
                "key": keys.preview,
                "publicKey": public,
                "accountId": keys.account_id,
                "namespace": namespace,
            }

        return [
            row("main", options.keys_of("main")),
            *(row(agent, keys) for agent, keys in options.agents.items() if agent != "main"),
        ]

    async def export(self, params: Params, _: MethodCall) -> dict[str, Any]:
        """Returns the memories of an agent, and the number that the server reports."""
        client, namespace = self._of(params.agent)
        try:
            count = (await client.stats(namespace)).memory_count
        except MemWalError as error:
            raise _plugin_error(error) from error
        memories = await self._backend.every(params.agent)
        rows = [
            {"text": memory.text, "blob_id": memory.blob_id, "created_at": memory.created_at}
            for memory in memories
        ]
        mode = self._relayer.options.mode
        return {"namespace": namespace, "count": count, "memories": rows, "mode": mode}

    async def remember(self, params: Params, _: MethodCall) -> dict[str, Any]:
        """Stores a text unchanged; a repeated text is stored once."""
        text = params.text.strip()
        if not text:
            raise PluginError("The text is empty.", "Give the text to store as `text`.")
        if is_injection(text):
            raise PluginError(
                "The text is not stored: it reads like an instruction to a model.",
                "Write it as a fact.",
            )
        client, namespace = self._of(params.agent)
        digest = hashlib.sha256(f"{namespace}\0{text}".encode()).hexdigest()
        try:
            accepted = await client.remember(text, namespace, f"skerry-text-{digest}")
        except MemWalError as error:
            raise _plugin_error(error) from error
        return {"jobId": accepted.job_id, "status": accepted.status, "namespace": namespace}

    async def forget(self, params: Params, _: MethodCall) -> dict[str, Any]:
        """Deletes memories by words or by ids; returns their number."""
        namespace = self._relayer.namespace(params.agent)
        if not (params.ids or params.phrases):
            raise PluginError(
                "The request names nothing to forget.",
                "Give words as `phrases`, or `ids` that `search` returned.",
            )
        forgotten = await self._backend.remove(params.agent, params.ids)
        if params.phrases:
            try:
                forgotten += await self._backend.forget(params.agent, params.phrases)
            except SkerryError as error:
                raise PluginError(str(error), error.remedy) from error
        return {"forgotten": forgotten, "namespace": namespace}

    def _of(self, agent: str) -> tuple[Client, str]:
        return self._relayer.client(agent), self._relayer.namespace(agent)


def _plugin_error(error: MemWalError) -> PluginError:
    return PluginError(str(error), error.remedy)
