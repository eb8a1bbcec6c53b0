"""Secrets in encrypted files: the bytes on disk, and the keys that decrypt them."""

import json
import stat
from pathlib import Path

import pytest

from skerry.auth.vault import KEY_FILE, SealedVault
from skerry.model.errors import CredentialError


@pytest.fixture(params=["", "correct horse"], ids=["key file", "passphrase"])
def vault(request: pytest.FixtureRequest, tmp_path: Path) -> SealedVault:
    return SealedVault(tmp_path / "credentials", request.param)


@pytest.mark.requirement("auth-credentials-dir")
def test_secrets_are_in_a_private_file_of_their_provider_and_nowhere_readable(
    vault: SealedVault,
) -> None:
    vault.put("openai", {"main/openai:a#key": "sk-secret-1", "main/openai:b#key": "sk-secret-2"})
    assert vault.get("openai", "main/openai:a#key") == "sk-secret-1"
    path = vault.directory / "openai.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(vault.directory.stat().st_mode) == 0o700
    assert b"sk-secret" not in b"".join(path.read_bytes() for path in vault.directory.iterdir())
    vault.drop("openai", {"main/openai:a#key"})
    with pytest.raises(CredentialError, match="has no"):
        vault.get("openai", "main/openai:a#key")
    assert vault.get("openai", "main/openai:b#key") == "sk-secret-2"


def test_a_secret_counts_at_its_own_place_only(vault: SealedVault) -> None:
    vault.put("openai", {"a": "sk-a", "b": "sk-b"})
    path = vault.directory / "openai.json"
    content = json.loads(path.read_bytes())
    content["secrets"]["b"] = content["secrets"]["a"]
    path.write_text(json.dumps(content))
    with pytest.raises(CredentialError, match="does not open"):
        vault.get("openai", "b")
    other = vault.directory / "groq.json"
    other.write_text(path.read_text())
    other.chmod(0o600)
    with pytest.raises(CredentialError, match="does not open"):
        vault.get("groq", "a")


def test_another_passphrase_or_none_opens_nothing(tmp_path: Path) -> None:
    SealedVault(tmp_path, "right").put("p", {"a": "sk"})
    with pytest.raises(CredentialError, match="does not open"):
        SealedVault(tmp_path, "wrong").get("p", "a")
    with pytest.raises(CredentialError, match="passphrase"):
        SealedVault(tmp_path).get("p", "a")


def test_a_lost_key_is_not_replaced_by_a_new_one(tmp_path: Path) -> None:
    vault = SealedVault(tmp_path)
    vault.put("p", {"a": "sk"})
    (tmp_path / KEY_FILE).unlink()
    for use in (lambda: vault.get("p", "a"), lambda: vault.put("q", {"b": "sk"})):
        with pytest.raises(CredentialError, match="only it opens"):
            use()


def test_what_others_can_read_is_refused(vault: SealedVault) -> None:
    vault.put("p", {"a": "sk"})
    (vault.directory / "p.json").chmod(0o644)
    with pytest.raises(CredentialError, match="readable by others") as caught:
        vault.get("p", "a")
    assert caught.value.remedy.startswith("chmod 600")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"kdf":1,"secrets":{}}'])
def test_a_damaged_file_says_so_and_stays(vault: SealedVault, content: bytes) -> None:
    vault.put("p", {"a": "sk"})
    path = vault.directory / "p.json"
    path.write_bytes(content)
    with pytest.raises(CredentialError):
        vault.get("p", "a")


def test_a_file_cannot_ask_for_endless_work(tmp_path: Path) -> None:
    vault = SealedVault(tmp_path, "right")
    vault.put("p", {"a": "sk"})
    path = tmp_path / "p.json"
    path.write_bytes(path.read_bytes().replace(b'"n":32768', b'"n":1073741824'))
    with pytest.raises(CredentialError, match="unreasonable"):
        vault.get("p", "a")


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "x" * 65])
def test_a_provider_names_no_other_file(vault: SealedVault, name: str) -> None:
    with pytest.raises(CredentialError, match="not the name"):
        vault.put(name, {"a": "sk"})
