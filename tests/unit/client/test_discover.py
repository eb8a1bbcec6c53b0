"""Which gateway is meant, and which token goes where."""

from pathlib import Path

import pytest

from skerry.client.discover import find
from skerry.config.gateway import LOCK
from skerry.infra.lock import locked
from skerry.model.errors import ClientError, ConfigInvalidError

FILE_TOKEN, ENV_TOKEN, FLAG_TOKEN = "f" * 48, "e" * 48, "g" * 48


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "skerry.json").write_text(
        '{"gateway": {"port": 7, "auth": {"token": "' + FILE_TOKEN + '"}}}'
    )
    return {"SKERRY_STATE_DIR": str(tmp_path)}


def test_without_a_word_it_is_the_configured_gateway_of_this_machine(
    environ: dict[str, str],
) -> None:
    address = find(environ)
    assert (address.url, address.token) == ("ws://127.0.0.1:7", FILE_TOKEN)


def test_a_gateway_that_runs_on_another_port_is_found(environ: dict[str, str]) -> None:
    with locked(Path(environ["SKERRY_STATE_DIR"]) / LOCK, note="9"):
        assert find(environ).url == "ws://127.0.0.1:9"
        assert find(environ | {"SKERRY_GATEWAY_PORT": "8"}).url == "ws://127.0.0.1:8"
    assert find(environ).url == "ws://127.0.0.1:7"


def test_the_environment_overrides_the_file_and_flags_override_both(
    environ: dict[str, str],
) -> None:
    environ |= {"SKERRY_GATEWAY_TOKEN": ENV_TOKEN, "SKERRY_GATEWAY_PORT": "8"}
    assert (find(environ).url, find(environ).token) == ("ws://127.0.0.1:8", ENV_TOKEN)
    address = find(environ, url="ws://localhost:9", token=FLAG_TOKEN)
    assert (address.url, address.token) == ("ws://localhost:9", FLAG_TOKEN)


def test_another_address_on_this_machine_gets_the_configured_token(environ: dict[str, str]) -> None:
    assert find(environ, url="ws://127.0.0.1:9").token == FILE_TOKEN


def test_a_variable_that_only_the_gateway_has_keeps_nobody_from_asking_it(
    environ: dict[str, str],
) -> None:
    file = Path(environ["SKERRY_STATE_DIR"]) / "skerry.json"
    providers = '{"own": {"baseUrl": "http://h/v1", "apiKey": "${OWN_KEY}"}}'
    shown = '{"source": "env", "id": "OWN_TOKEN"}'
    file.write_text(
        f'{{"models": {{"providers": {providers}}}, "gateway": {{"auth": {{"token": {shown}}}}}}}'
    )
    assert find(environ | {"OWN_TOKEN": ENV_TOKEN}).token == ENV_TOKEN
    with pytest.raises(ConfigInvalidError) as lacking:
        find(environ | {"OWN_KEY": "k"})
    assert any("OWN_TOKEN" in issue.message for issue in lacking.value.issues)


def test_another_machine_gets_no_token_that_was_not_meant_for_it(environ: dict[str, str]) -> None:
    assert find(environ, url="wss://far.example").token is None
    environ |= {"SKERRY_GATEWAY_TOKEN": ENV_TOKEN}
    assert find(environ, url="wss://far.example").token is None
    assert find(environ, url="wss://far.example", token=FLAG_TOKEN).token == FLAG_TOKEN
    assert find(environ | {"SKERRY_GATEWAY_URL": "wss://far.example"}).token == ENV_TOKEN


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("ws://far.example:1", "unencrypted"),
        ("ws://127.0.0.1.far.example", "unencrypted"),
        ("ws://127.0.0.1@far.example", "unencrypted"),
        ("http://127.0.0.1:1", "not the address of a gateway"),
        ("ws://", "not the address of a gateway"),
    ],
)
def test_an_address_that_would_leak_the_token_is_refused(
    environ: dict[str, str], url: str, says: str
) -> None:
    with pytest.raises(ClientError, match=says):
        find(environ, url=url)


def test_a_token_is_not_printed_with_its_address(environ: dict[str, str]) -> None:
    assert FILE_TOKEN not in repr(find(environ))
