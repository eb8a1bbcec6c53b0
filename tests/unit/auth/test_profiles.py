"""The file of an agent's profiles, where it may be, and the order in which profiles are used."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.auth.credentials import Credentials, profiles_file, vault_of
from skerry.auth.profiles import (
    CredentialKind,
    Profile,
    change,
    ordered,
    parse,
    pinned,
    read,
    split_reference,
)
from skerry.config.protected import protected
from skerry.config.root import Config
from skerry.infra.http import HttpClient
from skerry.model.errors import CredentialError, ModelAuthError
from skerry.model.ids import MAIN_AGENT, AgentId
from skerry.testing.clock import FakeClock


def config(home: Path, **sections: Any) -> Config:
    return Config.model_validate({"state_dir": home, "path": home / "skerry.json", **sections})


def profile(
    name: str, kind: CredentialKind = CredentialKind.API_KEY, owner: str = "main", **fields: Any
) -> Profile:
    return Profile(name, name.partition(":")[0], kind, AgentId(owner), fields)


@pytest.mark.requirement("auth-profiles-file")
@pytest.mark.requirement("config-agent-dir")
def test_an_agents_profiles_are_in_its_own_directory_or_where_agent_dir_says(
    tmp_path: Path,
) -> None:
    agents = {"list": [{"id": "main"}, {"id": "work", "agentDir": str(tmp_path / "elsewhere")}]}
    settings = config(tmp_path, agents=agents)
    usual = tmp_path / "agents" / "main" / "agent" / "auth-profiles.json"
    assert profiles_file(settings, MAIN_AGENT) == usual
    other = profiles_file(settings, AgentId("work"))
    assert other == tmp_path / "elsewhere" / "auth-profiles.json"
    rules = protected(settings)
    assert rules.reading(other) is not None
    assert rules.writing(other) is not None


@pytest.mark.requirement("auth-not-in-workspace")
@pytest.mark.parametrize("link", [False, True], ids=["inside", "through a link"])
def test_credentials_in_a_workspace_are_refused(tmp_path: Path, link: bool) -> None:  # noqa: FBT001 - a case
    workspace = tmp_path / "workspace"
    inside = workspace / "secrets"
    inside.mkdir(parents=True)
    path = inside
    if link:
        path = tmp_path / "linked"
        path.symlink_to(inside)
    settings = config(tmp_path, agents={"list": [{"id": "main", "agentDir": str(path)}]})
    with pytest.raises(CredentialError, match="lies in the workspace") as caught:
        profiles_file(settings, MAIN_AGENT)
    assert "agentDir" in caught.value.remedy


async def test_profiles_in_a_workspace_are_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    inside = tmp_path / "workspace"
    inside.mkdir()
    write(inside / "auth-profiles.json", {"p:a": {"type": "api_key", "provider": "p", "key": "k"}})
    settings = config(tmp_path, agents={"list": [{"id": "main", "agentDir": str(inside)}]})
    async with HttpClient() as http:
        credentials = Credentials(settings, {}, http, FakeClock())
        assert credentials.of(MAIN_AGENT, "p") == []
    assert "lies in the workspace" in caplog.text


def write(path: Path, profiles: dict[str, Any], **more: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"version": 1, "profiles": profiles, **more}))
    path.chmod(0o600)


async def test_a_change_of_the_file_counts_at_once(tmp_path: Path) -> None:
    path = tmp_path / "agents" / "main" / "agent" / "auth-profiles.json"
    async with HttpClient() as http:
        credentials = Credentials(config(tmp_path), {}, http, FakeClock())
        assert credentials.of(MAIN_AGENT, "p") == []
        write(path, {"p:a": {"type": "api_key", "provider": "p", "key": "k"}})
        assert [profile.id for profile in credentials.of(MAIN_AGENT, "p")] == ["p:a"]
        path.unlink()
        assert credentials.of(MAIN_AGENT, "p") == []


async def test_a_secret_that_is_missing_or_has_ended_says_what_to_do(tmp_path: Path) -> None:
    clock = FakeClock()
    async with HttpClient() as http:
        credentials = Credentials(config(tmp_path), {"KEY": "sk-env"}, http, clock)
        assert await credentials.secret(profile("p:a", key="${KEY}")) == "sk-env"
        assert (
            await credentials.secret(profile("p:a", key={"source": "env", "id": "KEY"})) == "sk-env"
        )
        vault_of(config(tmp_path), {}).put("p", {"a": "sk-vault"})
        assert (
            await credentials.secret(profile("p:a", key={"source": "vault", "id": "a"}))
            == "sk-vault"
        )
        ended = profile("p:a", CredentialKind.TOKEN, token="t", expires=clock.now_ms())  # noqa: S106 - a test's
        for bad in (profile("p:a", key="${GONE}"), profile("p:a"), ended, profile("p:a", key="é")):
            with pytest.raises(ModelAuthError) as caught:
                await credentials.secret(bad)
            assert caught.value.remedy


def test_what_cannot_be_used_is_named_and_the_rest_counts() -> None:
    entries = {
        "p:good": {"type": "api_key", "provider": "p", "key": "k"},
        "noprovider": {"type": "api_key", "provider": "p"},
        "p:kind": {"type": "magic", "provider": "p"},
        "p:half": {"type": "token"},
        "p:list": [],
    }
    profiles = parse({"profiles": entries, "order": {"p": ["p:good", 7]}}, MAIN_AGENT)
    assert (list(profiles.profiles), len(profiles.problems)) == (["p:good"], 4)
    assert profiles.order == {"p": ("p:good",)}


def test_a_change_keeps_what_it_does_not_know(tmp_path: Path) -> None:
    path = tmp_path / "auth-profiles.json"
    write(path, {}, usageStats={"x": 1})
    change(path, lambda content: content["profiles"].update({"p:a": {"type": "token"}}))
    content = json.loads(path.read_text())
    assert (content["usageStats"], list(content["profiles"])) == ({"x": 1}, ["p:a"])
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", [b"{", b"[]", b'{"a":"\xff"}', b'{"a":' * 9999])
def test_a_damaged_file_is_not_written_over(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "auth-profiles.json"
    path.write_bytes(text)
    path.chmod(0o600)
    with pytest.raises(CredentialError):
        change(path, lambda content: content.clear())
    assert path.read_bytes() == text
    path.chmod(0o640)
    with pytest.raises(CredentialError, match="readable by others"):
        read(path, MAIN_AGENT)


@pytest.mark.parametrize(
    ("reference", "parts"),
    [
        ("p/m", ("p/m", "")),
        ("p/m@work", ("p/m", "work")),
        ("p/m@p:me@example.org", ("p/m@p:me", "example.org")),
        ("p/vendor/m@2:x", ("p/vendor/m", "2:x")),
        ("fast@work", ("fast", "work")),
        ("p/@cf/meta", ("p/@cf/meta", "")),
        ("@x", ("@x", "")),
    ],
)
def test_a_profile_is_pinned_behind_the_last_at(reference: str, parts: tuple[str, str]) -> None:
    assert split_reference(reference) == parts


def test_a_pin_is_an_id_or_what_follows_the_provider() -> None:
    both = [profile("p:one"), profile("p:two")]
    assert pinned(both, "p:two") is both[1]
    assert pinned(both, "two") is both[1]
    assert pinned(both, "three") is None


def test_sign_ins_come_before_tokens_and_tokens_before_keys() -> None:
    kinds = [
        profile("p:k"),
        profile("p:o", CredentialKind.OAUTH),
        profile("p:t", CredentialKind.TOKEN),
    ]
    profiles = ordered(kinds, (), {}, lambda _: 0, 0)
    assert [profile.id for profile in profiles] == ["p:o", "p:t", "p:k"]


NAMES = st.lists(st.sampled_from(["p:a", "p:b", "p:c", "p:d"]), unique=True, min_size=1)


@given(NAMES, NAMES, st.dictionaries(st.sampled_from(["main/p:a", "main/p:b"]), st.integers(0, 9)))
def test_no_profile_is_lost_or_doubled_and_cooling_ones_are_last(
    names: list[str], explicit: list[str], used: dict[str, int]
) -> None:
    profiles = [profile(name) for name in names]
    until = {"p:b": 50, "p:c": 90}
    found = ordered(profiles, explicit, used, lambda one: until.get(one.id, 0), 10)
    ids = [profile.id for profile in found]
    assert sorted(ids) == sorted(set(names) & set(explicit))
    rests = [until.get(name, 0) for name in ids]
    assert rests == sorted(rests)


@given(st.lists(st.sampled_from(["p:a", "p:b", "p:c"]), min_size=1, max_size=20))
def test_who_was_used_longest_ago_is_next(uses: list[str]) -> None:
    used = {f"main/{name}": number for number, name in enumerate(uses, 1)}
    profiles = ordered([profile(n) for n in ("p:a", "p:b", "p:c")], (), used, lambda _: 0, 0)
    ages = [used.get(profile.key, 0) for profile in profiles]
    assert ages == sorted(ages)


@pytest.mark.requirement("config-agent-model")
def test_an_agents_model_names_a_primary_one_and_fallbacks(tmp_path: Path) -> None:
    agents = {
        "defaults": {"model": {"primary": "p/a", "fallbacks": ["p/b"]}},
        "list": [
            {"id": "main"},
            {"id": "work", "model": {"primary": "p/c", "fallbacks": ["p/d", "p/e"]}},
            {"id": "strict", "model": {"primary": "p/f", "fallbacks": []}},
            {"id": "short", "model": "p/g"},
        ],
    }
    settings = config(tmp_path, agents=agents)
    found = {
        id_: (settings.primary_model(id_), settings.fallback_models(id_))
        for id_ in settings.agents.ids
    }
    assert list(found.values()) == [
        ("p/a", ("p/b",)),
        ("p/c", ("p/d", "p/e")),
        ("p/f", ()),
        ("p/g", ("p/b",)),
    ]
