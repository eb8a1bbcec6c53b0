"""Which embedding models an agent has, in which order, and who pays."""

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.auth.credentials import vault_of
from skerry.auth.profiles import parse
from skerry.config.check import check
from skerry.config.memory import MemorySearchConfig
from skerry.config.memory_search import Provider
from skerry.config.root import Config
from skerry.features.memory.embedding_models import Embedders, booked, endpoint, order
from skerry.features.memory.embedding_scope import open_embedding
from skerry.infra.http import HttpClient
from skerry.model.errors import BudgetError
from skerry.model.ids import AgentId
from skerry.model.run import Purpose
from skerry.ports.model_candidates import CallTarget, ModelCallEnded
from skerry.providers.model_catalog import Facts
from skerry_recall.embed import EmbeddingError, EmbeddingModel, EmbeddingUnavailableError
from skerry_recall.embedder_chain import Chain
from skerry_recall.remote import Spent
from tests.unit.recall.embedding_server import Reply, embedding_server

MAIN = AgentId("main")
KEYS = {"OPENAI_API_KEY": "openai-key", "GEMINI_API_KEY": "gemini-key", "VOYAGE_API_KEY": "voyage"}


def _config(search: dict[str, Any], **more: Any) -> Config:
    tree = {"agents": {"defaults": {"memorySearch": search}}, **more}
    config, _ = check(tree, state_dir=Path("/state"), path=Path("/state/skerry.json"))
    return config


class Book:
    """Records usage; refuses on request of the test."""

    def __init__(self) -> None:
        self.calls: list[ModelCallEnded] = []
        self.full = False

    def book(self, call: ModelCallEnded) -> None:
        self.calls.append(call)

    def allow(self, expected: CallTarget) -> None:
        if self.full:
            raise BudgetError(f"{expected.agent} has used up its day.")


@asynccontextmanager
async def _embedders(
    config: Config, environ: Mapping[str, str] = KEYS, book: Book | None = None
) -> AsyncGenerator[Embedders]:
    book = book or Book()
    calls, allow = book.calls.append, book.allow
    async with HttpClient() as http, anyio.create_task_group() as tasks:
        yield Embedders(lambda: config, http, environ, tasks, book=calls, allow=allow)
        tasks.cancel_scope.cancel()


async def _embed(chain: Chain, texts: list[str]) -> None:
    await chain.passages(texts, chain.embedders[0].model)


def _search(**values: Any) -> MemorySearchConfig:
    return MemorySearchConfig.model_validate(values)


ALL: frozenset[Provider] = frozenset(("local", "openai", "gemini", "voyage"))


@pytest.mark.requirement("embed-chain-auto")
def test_auto_is_local_openai_gemini_voyage_and_then_words_alone() -> None:
    assert order(_search(), ALL.__contains__) == ["local", "openai", "gemini", "voyage"]
    assert order(_search(), frozenset(("gemini", "voyage")).__contains__) == ["gemini", "voyage"]
    assert order(_search(), frozenset[str]().__contains__) == []


@pytest.mark.parametrize(
    ("search", "expected"),
    [
        ({"provider": "none"}, []),
        ({"provider": "openai"}, ["openai"]),
        ({"provider": "openai", "fallback": "auto"}, ["openai", "local", "gemini", "voyage"]),
        ({"provider": "openai", "fallback": "local"}, ["openai", "local"]),
        ({"provider": "openai", "fallback": "none"}, ["openai"]),
        ({"fallback": "none"}, ["local"]),
        ({"fallback": "voyage"}, ["local", "voyage"]),
    ],
)
def test_who_follows_is_as_configured(search: dict[str, Any], expected: list[str]) -> None:
    assert order(_search(**search), ALL.__contains__) == expected


@pytest.mark.parametrize(
    ("search", "models", "expected"),
    [
        ({}, {}, ("https://api.openai.com/v1", "openai-key")),
        ({}, {"mode": "replace"}, ("https://api.openai.com/v1", "")),
        (
            {},
            {"providers": {"openai": {"baseUrl": "https://api.openai.com/v1", "apiKey": "file"}}},
            ("https://api.openai.com/v1", "file"),
        ),
        (
            {},
            {"providers": {"openai": {"baseUrl": "https://proxy.example/v1"}}},
            ("https://proxy.example/v1", ""),
        ),
        (
            {"provider": "openai", "remote": {"apiKey": "own"}},
            {"providers": {"openai": {"baseUrl": "https://proxy.example/v1", "apiKey": "file"}}},
            ("https://api.openai.com/v1", "own"),
        ),
        (
            {"provider": "openai", "remote": {"baseUrl": "http://127.0.0.1:1/v1"}},
            {},
            ("http://127.0.0.1:1/v1", ""),
        ),
        (
            {"provider": "gemini", "remote": {"baseUrl": "http://127.0.0.1:1/v1", "apiKey": "own"}},
            {},
            ("https://api.openai.com/v1", "openai-key"),
        ),
    ],
)
def test_a_key_goes_to_its_own_address_alone(
    search: dict[str, Any], models: dict[str, Any], expected: tuple[str, str]
) -> None:
    config = _config(search, models=models)
    hosted_endpoint = endpoint("openai", config.memory_search(MAIN), config, KEYS)
    assert (hosted_endpoint.url, hosted_endpoint.key) == expected


def _kept(state: Path, profiles: dict[str, Any], agent: str = "main") -> None:
    file = state / "agents" / agent / "agent" / "auth-profiles.json"
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file.touch(mode=0o600)
    file.write_text(json.dumps({"version": 1, "profiles": profiles}))


def _entry(provider: str, key: Any, **more: Any) -> dict[str, Any]:
    return {"type": "api_key", "provider": provider, "key": key, **more}


async def test_a_key_that_a_person_entered_is_used_for_embeddings_too(tmp_path: Path) -> None:
    async with embedding_server() as server:
        base_url = {"baseUrl": server.url}
        models = {"providers": {"openai": {**base_url, "apiKey": "of-the-file"}}}
        tree = {"agents": {"defaults": {"memorySearch": {"provider": "openai"}}}, "models": models}
        config, _ = check(tree, state_dir=tmp_path, path=tmp_path / "skerry.json")
        async with _embedders(config) as embedders:
            await _embed(embedders.of(MAIN), ["a"])
            _kept(tmp_path, {"openai:mine": _entry("openai", "mine", **base_url)})
            await _embed(embedders.of(MAIN), ["a"])
            vault_of(config, KEYS).put("openai", {"mine": "sealed-away"})
            sealed = {"source": "vault", "id": "mine"}
            _kept(tmp_path, {"openai:mine": _entry("openai", sealed, **base_url)})
            await _embed(embedders.of(AgentId("other")), ["a"])
            server.replies = [Reply(401, {"error": "sealed-away is no good key"})]
            with pytest.raises(EmbeddingError) as refused:
                await _embed(embedders.of(MAIN), ["a"])
            vault_of(config, KEYS).drop("openai", {"mine"})
            with pytest.raises(EmbeddingUnavailableError, match="has no mine"):
                await _embed(embedders.of(AgentId("other")), ["a"])
    keys = [request.headers["authorization"].removeprefix("Bearer ") for request in server.asked]
    assert keys == ["of-the-file", "mine", "sealed-away", "sealed-away"]
    assert "sealed-away" not in str(refused.value)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (_entry("openai", "k"), "profile"),
        (_entry("openai", "k", baseUrl="https://api.openai.com/v1/"), "profile"),
        (_entry("openai", "k", baseUrl="https://proxy.example/v1"), "openai-key"),
        ({"type": "oauth", "provider": "openai", "access": "a"}, "openai-key"),
    ],
)
def test_a_profile_is_used_for_its_own_address_and_only_if_it_is_a_key(
    entry: dict[str, Any], expected: str
) -> None:
    config = _config({})
    (profile,) = parse({"profiles": {"openai:mine": entry}}, MAIN).profiles.values()
    hosted_endpoint = endpoint("openai", config.memory_search(MAIN), config, KEYS, [profile])
    assert (hosted_endpoint.key or hosted_endpoint.profile) == (
        profile if expected == "profile" else expected
    )


async def test_each_provider_has_its_usual_model() -> None:
    config = _config({"provider": "openai", "fallback": "auto"})
    async with _embedders(config) as embedders:
        chain = embedders.of(MAIN)
    assert [str(embedder.model) for embedder in chain.embedders if not embedder.local] == [
        "openai/text-embedding-3-small",
        "gemini/gemini-embedding-001",
        "voyage/voyage-4-large",
    ]


async def test_a_server_of_one_s_own_has_vectors_of_its_own() -> None:
    config = _config(
        {"provider": "openai", "model": "bge", "remote": {"baseUrl": "http://127.0.0.1:1/v1/"}}
    )
    async with _embedders(config) as embedders:
        (only,) = embedders.of(MAIN).embedders
    assert str(only.model) == "openai@127.0.0.1:1/v1/bge"


async def test_a_provider_without_its_key_says_what_is_missing() -> None:
    async with _embedders(_config({"provider": "voyage"}), {}) as embedders:
        chain = embedders.of(MAIN)
        with pytest.raises(EmbeddingUnavailableError, match="No API key is set for voyage"):
            await _embed(chain, ["a"])
        trouble = chain.trouble()
    assert trouble is not None
    assert trouble.remedy == "Set VOYAGE_API_KEY, or: skerry auth add voyage"


async def test_the_chain_stays_until_its_settings_change() -> None:
    now = [_config({"provider": "openai"})]
    book = Book()
    async with HttpClient() as http, anyio.create_task_group() as tasks:
        embedders = Embedders(lambda: now[0], http, KEYS, tasks, book=book.book, allow=book.allow)
        first = embedders.of(MAIN)
        now[0] = _config({"provider": "openai"})
        assert embedders.of(MAIN) is first
        now[0] = _config({"provider": "openai", "model": "text-embedding-3-large"})
        second = embedders.of(MAIN)
        assert [embedder.model.model for embedder in second.embedders] == ["text-embedding-3-large"]


async def test_what_the_gateway_gets_is_one_model_or_none() -> None:
    book = Book()
    configs = [_config({"provider": "openai"}), _config({"provider": "none"})]
    for config, expected in zip(configs, ["openai/text-embedding-3-small", None], strict=True):
        async with open_embedding(partial(lambda one: one, config), KEYS, book) as embedder:
            chain_embedder = embedder(MAIN)
            assert (str(chain_embedder.model) if chain_embedder else None) == expected


async def test_agents_share_the_process_of_a_local_model() -> None:
    config = _config({"provider": "local", "model": "wordllama"})
    async with _embedders(config) as embedders:
        first = embedders.of(MAIN)
        second = embedders.of(AgentId("other"))
        assert first.embedders == second.embedders
        assert str(first.embedders[0].model) == "local/wordllama"


@pytest.mark.requirement("embed-provider-openai")
async def test_what_a_hosted_model_costs_is_booked() -> None:
    book = Book()
    async with embedding_server() as server:
        remote = {"baseUrl": server.url}
        config = _config({"provider": "openai", "remote": remote})
        async with _embedders(config, book=book) as embedders:
            chain = embedders.of(MAIN)
            await _embed(chain, ["abc", "d"])
            server.replies = [Reply(401, {"error": "no"})]
            with pytest.raises(EmbeddingError):
                await _embed(chain, ["abc"])
    good, bad = book.calls
    assert (good.purpose, good.usage.input, good.error) == (Purpose.EMBEDDING, 2, None)
    assert not good.priced, "nobody knows what a server of one's own costs"
    assert bad.error is not None
    assert "key" not in bad.error.message or "openai-key" not in bad.error.message


async def test_nothing_is_asked_where_the_budget_is_used_up() -> None:
    book = Book()
    book.full = True
    async with embedding_server() as server:
        config = _config({"provider": "openai", "remote": {"baseUrl": server.url}})
        async with _embedders(config, book=book) as embedders:
            with pytest.raises(EmbeddingError, match="main has used up its day"):
                await _embed(embedders.of(MAIN), ["a"])
    assert server.asked == []


def test_a_million_tokens_cost_what_the_table_says() -> None:
    spent = Spent(EmbeddingModel("openai", "text-embedding-3-small"), 1_000_000, 0.5)
    cost = Facts().of("openai", "text-embedding-3-small").cost.as_model_cost()
    call = booked(spent, cost, CallTarget(purpose=Purpose.EMBEDDING))
    assert (call.priced, call.usage.cost.total) == (True, 0.02)
    later = booked(replace(spent, batch=True), cost, CallTarget(purpose=Purpose.EMBEDDING))
    assert later.usage.cost.total == 0.01


async def test_jobs_are_for_those_who_want_them() -> None:
    for enabled, bulk in ((False, 256), (True, 5000)):
        remote = {"batch": {"enabled": enabled}}
        async with _embedders(_config({"provider": "openai", "remote": remote})) as embedders:
            (only,) = embedders.of(MAIN).embedders
            assert only.bulk == bulk


def test_models_that_embed_are_not_offered_as_models_that_answer() -> None:
    assert not any("embedding" in name for name in Facts().models("openai"))
