"""The fake registry refuses the same requests as the real one."""

from typing import Any

import httpx2
import pytest

from skerry.infra.http import HttpClient
from skerry.testing.skill_registry import TOKEN, SkillRegistryServer

pytestmark = pytest.mark.anyio


async def test_reading_needs_no_token_and_unknown_names_are_404() -> None:
    async with SkillRegistryServer() as server, HttpClient() as http:
        server.add("tea", "1.0.0", {"SKILL.md": "x"})
        api = f"{server.url}/api/v1"
        assert (await http.get(f"{api}/skills/tea")).json()["latestVersion"]["version"] == "1.0.0"
        archive = await http.get(f"{api}/download?slug=tea&version=1.0.0")
        assert archive.content.startswith(b"PK")
        for path in (
            "skills/none",
            "skills/tea/versions/9",
            "download?slug=tea&version=9",
            "other",
        ):
            assert (await http.get(f"{api}/{path}")).status_code == 404


@pytest.mark.parametrize(
    ("token", "change", "status"),
    [
        (TOKEN, {}, 200),
        ("wrong", {}, 401),
        (TOKEN, {"acceptLicenseTerms": False}, 400),
        (TOKEN, {"slug": None}, 400),
    ],
)
async def test_publishing_needs_a_token_the_licence_and_all_fields(
    token: str, change: dict[str, Any], status: int
) -> None:
    payload = {
        "slug": "tea",
        "displayName": "Tea",
        "version": "1.0.0",
        "changelog": "",
        "acceptLicenseTerms": True,
    } | change
    fields = {key: value for key, value in payload.items() if value is not None}
    async with SkillRegistryServer() as server, HttpClient() as http:
        response = await http.post(
            f"{server.url}/api/v1/skills",
            headers={"authorization": f"Bearer {token}"},
            data={"payload": httpx2.Request("POST", "http://x", json=fields).content.decode()},
            files={"files": ("SKILL.md", b"text")},
        )
        assert response.status_code == status
        assert bool(server.published) == (status == 200)
