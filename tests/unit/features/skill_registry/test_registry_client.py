"""The client of the registry and the examination of its responses, over real sockets."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from skerry.features.skill_registry.content import content_hash
from skerry.features.skill_registry.errors import RegistryError, SkillError
from skerry.features.skill_registry.offers import newest, offer
from skerry.features.skill_registry.registry_client import Draft, RegistryClient
from skerry.net.safe_fetch import SafeClient
from skerry.policy.network import NetworkRules
from skerry.policy.urls import Target, parse_url
from skerry.testing.http_server import ServedResponse
from skerry.testing.skill_registry import TOKEN, SkillRegistryServer, zipped

pytestmark = pytest.mark.anyio
SKILL = "---\nname: demo\ndescription: Shows a skill.\n---\n# Demo\n"


@asynccontextmanager
async def connected(server: SkillRegistryServer, token: str = "") -> AsyncGenerator[RegistryClient]:
    target = parse_url(server.url)
    assert isinstance(target, Target)
    rules = NetworkRules(allowed_hosts=frozenset({(target.host, target.port)}))
    async with SafeClient(rules) as http:
        yield RegistryClient(http, server.url, token)


async def test_a_search_returns_the_skills_with_safe_names() -> None:
    async with SkillRegistryServer() as server, connected(server) as client:
        server.add("demo", "1.0.0", {"SKILL.md": SKILL}, summary="Shows a skill")
        server.add("../evil", "1.0.0", {"SKILL.md": SKILL}, summary="Shows evil")
        results = await client.search("shows", 10)
        assert [(row.slug, row.version) for row in results] == [("demo", "1.0.0")]
        assert await client.search("nothing", 10) == ()


async def test_the_offer_of_a_version_has_its_files_and_hash() -> None:
    files = {"SKILL.md": SKILL, "docs/a.md": "more"}
    async with SkillRegistryServer() as server, connected(server) as client:
        server.add("demo", "1.0.0", files)
        server.add("demo", "1.1.0", {"SKILL.md": SKILL})
        page, latest = await newest(client, "demo")
        assert (latest, page.handle) == ("1.1.0", "alice")
        old = await offer(client, page, "1.0.0")
    assert old.files == {path: text.encode() for path, text in files.items()}
    assert (old.skill.name, old.owner, old.findings) == ("demo", "alice", ())
    assert old.sha256 == content_hash(old.files)


@pytest.mark.parametrize(
    "moderation",
    [
        {"isSuspicious": False, "isMalwareBlocked": True},
        {"isSuspicious": False, "isMalwareBlocked": False, "verdict": "malicious"},
    ],
)
@pytest.mark.abuse(87)
async def test_a_skill_that_the_registry_blocks_is_not_downloaded(moderation: Any) -> None:
    async with SkillRegistryServer() as server, connected(server) as client:
        server.add("demo", "1.0.0", {"SKILL.md": SKILL}, moderation=moderation)
        with pytest.raises(SkillError, match="blocks demo as malware"):
            await newest(client, "demo")
        assert "/api/v1/download" not in {request.path for request in server.requests}


@pytest.mark.parametrize(
    ("moderation", "security", "rule"),
    [
        ({"isSuspicious": True, "isMalwareBlocked": False}, None, "moderation"),
        ({"isSuspicious": False, "isMalwareBlocked": False, "verdict": "odd"}, None, "moderation"),
        (None, {"status": "suspicious"}, "registry-scan"),
    ],
)
async def test_a_flag_of_the_registry_is_a_severe_finding(
    moderation: Any, security: Any, rule: str
) -> None:
    async with SkillRegistryServer() as server, connected(server) as client:
        server.add("demo", "1", {"SKILL.md": SKILL}, moderation=moderation, security=security)
        page, latest = await newest(client, "demo")
        findings = (await offer(client, page, latest)).findings
    assert [(row.severity, row.rule) for row in findings] == [("severe", rule)]


async def test_a_moderation_without_its_flags_is_refused() -> None:
    async with SkillRegistryServer() as server, connected(server) as client:
        server.add("demo", "1.0.0", {"SKILL.md": SKILL}, moderation={"verdict": "clean"})
        with pytest.raises(RegistryError, match="invalid response"):
            await newest(client, "demo")


@pytest.mark.parametrize("status", [403, 410, 423])
async def test_a_version_that_the_registry_withholds_is_refused(status: int) -> None:
    async with SkillRegistryServer() as server, connected(server) as client:
        server.add("demo", "1.0.0", {"SKILL.md": SKILL})
        server.planned["/api/v1/download"] = ServedResponse(b"hidden", status)
        page, latest = await newest(client, "demo")
        with pytest.raises(RegistryError, match=f"{status}: hidden") as raised:
            await offer(client, page, latest)
    assert "do not use it" in raised.value.remedy


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (zipped({"SKILL.md": SKILL.encode() + b"more"}), "differs from the list"),
        (zipped({"SKILL.md": SKILL.encode(), "more.sh": b"x"}), "differs from the list"),
        (zipped({"SKILL.md": SKILL.encode(), "../x": b"x"}), "the path '../x'"),
        (b"{}", "no archive"),
    ],
)
@pytest.mark.abuse(81)
async def test_an_archive_that_differs_or_leads_out_is_refused(body: bytes, reason: str) -> None:
    async with SkillRegistryServer() as server, connected(server) as client:
        server.add("demo", "1.0.0", {"SKILL.md": SKILL})
        server.planned["/api/v1/download"] = ServedResponse(body)
        page, latest = await newest(client, "demo")
        with pytest.raises((SkillError, RegistryError), match=reason):
            await offer(client, page, latest)


@pytest.mark.parametrize(
    "text",
    [
        "no front matter",
        "---\nname: ../../etc\ndescription: x\n---\n",
        "---\nname: demo\n---\n",
        f"---\nname: demo\ndescription: {'x' * 2000}\n---\n",
    ],
)
@pytest.mark.abuse(82)
async def test_a_skill_without_a_valid_name_and_description_is_refused(text: str) -> None:
    async with SkillRegistryServer() as server, connected(server) as client:
        server.add("demo", "1.0.0", {"SKILL.md": text})
        page, latest = await newest(client, "demo")
        with pytest.raises(SkillError, match=r"SKILL\.md is not valid"):
            await offer(client, page, latest)


async def test_failures_of_the_registry_have_a_reason_and_a_remedy() -> None:
    async with SkillRegistryServer() as server, connected(server) as client:
        with pytest.raises(RegistryError, match="404: Skill not found"):
            await client.skill("demo")
        server.planned["/api/v1/search"] = ServedResponse(
            b"slow down", 429, headers={"retry-after": "34"}
        )
        with pytest.raises(RegistryError) as raised:
            await client.search("x", 1)
        assert raised.value.remedy == "Wait 34 s and repeat."
        server.planned["/api/v1/search"] = ServedResponse(b'{"results": 1}')
        with pytest.raises(RegistryError, match="invalid response"):
            await client.search("x", 1)
        server.planned["/api/v1/search"] = ServedResponse(b'{"results": []}', cut=True)
        with pytest.raises(RegistryError, match="was not reached"):
            await client.search("x", 1)


async def test_a_version_is_published_with_the_token_and_its_files() -> None:
    files = {"SKILL.md": SKILL.encode(), "docs/a.md": "é\r\n--x--\r\n".encode()}
    draft = Draft("demo", "Demo", "1.0.0", "First.", files)
    async with SkillRegistryServer() as server:
        async with connected(server) as client:
            with pytest.raises(RegistryError, match="401"):
                await client.publish(draft)
        async with connected(server, TOKEN) as client:
            assert await client.publish(draft) == "v1"
            page, latest = await newest(client, "demo")
            assert (await offer(client, page, latest)).files == files
        assert server.published[0]["displayName"] == "Demo"
        with pytest.raises(RegistryError, match="already exists"):
            async with connected(server, TOKEN) as client:
                await client.publish(draft)


async def test_the_well_known_file_names_the_address_of_the_api() -> None:
    async with SkillRegistryServer() as server:
        for field in ("apiBase", "registry"):
            server.discovery = {field: server.url}
            async with connected(server) as client:
                assert await client.search("x", 1) == ()
        for base in ("http://192.0.2.1", "file:///etc", "http://127.0.0.1:1"):
            server.discovery = {"apiBase": base}
            async with connected(server, TOKEN) as client:
                with pytest.raises(RegistryError, match=r"without https|invalid address"):
                    await client.search("x", 1)


async def test_an_api_on_a_private_address_is_not_reached() -> None:
    discovery = {"apiBase": "https://10.0.0.1"}
    async with (
        SkillRegistryServer(discovery=discovery) as server,
        connected(server, TOKEN) as client,
    ):
        with pytest.raises(RegistryError, match="not public"):
            await client.search("x", 1)
