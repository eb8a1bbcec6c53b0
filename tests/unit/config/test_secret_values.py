"""Secrets by reference: files and programs that are read and run at a load, and only then."""

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from skerry.client.discover import find
from skerry.config import source
from skerry.config.expand import expand
from skerry.config.load import load
from skerry.config.redact import redact_config
from skerry.config.write import ConfigAuthor, set_values
from skerry.infra.atomic import write_atomic
from skerry.model.errors import ConfigInvalidError

CANARY = "canary-secret-value"


@pytest.fixture
def home() -> Iterator[Path]:
    """A directory that nobody else can write to, nor to those above it."""
    base = Path(os.environ.get("HOME", "/")).resolve()

    with tempfile.TemporaryDirectory(dir=base, prefix=".skerry-test-") as made:
        yield Path(made)


def program(home: Path, text: str) -> Path:
    path = home / "give"
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o700)
    return path


def written(home: Path, provider: dict[str, Any], id_: str = "openai/key") -> dict[str, str]:
    """Writes a file whose token comes from the provider; returns the environment."""
    token = {"source": provider["source"], "provider": "box", "id": id_}
    tree = {"gateway": {"auth": {"token": token}}, "secrets": {"providers": {"box": provider}}}
    write_atomic(home / "skerry.json", json.dumps(tree).encode())
    return {"SKERRY_STATE_DIR": str(home), "HOME": str(home), "PATH": os.environ["PATH"]}


def token(environ: dict[str, str]) -> str | None:
    return load(environ).config.gateway.auth.secret


def why(environ: dict[str, str]) -> str:
    with pytest.raises(ConfigInvalidError) as caught:
        load(environ)
    assert [issue.path for issue in caught.value.issues][-1] == "gateway.auth.token"
    assert CANARY not in str(caught.value)
    return caught.value.issues[-1].message


def test_a_file_gives_what_its_id_points_to_and_a_plain_one_all_of_it(home: Path) -> None:
    file = home / "box.json"
    write_atomic(file, json.dumps({"openai": {"key": CANARY}, "a/b": {"~": "odd"}}).encode())
    environ = written(home, {"source": "file", "path": str(file)}, "/openai/key")
    assert token(environ) == CANARY
    environ = written(home, {"source": "file", "path": str(file)}, "/a~1b/~0")
    assert token(environ) == "odd"
    write_atomic(file, f"{CANARY}\n".encode())
    environ = written(home, {"source": "file", "path": str(file), "mode": "singleValue"}, "value")
    assert token(environ) == CANARY
    assert CANARY not in json.dumps(redact_config(load(environ).config))


def test_a_file_that_others_can_read_or_that_lacks_the_id_is_refused(home: Path) -> None:
    file = home / "box.json"
    write_atomic(file, json.dumps({"openai": CANARY}).encode())
    environ = written(home, {"source": "file", "path": str(file)})
    assert "no secret" in why(environ)
    file.chmod(0o644)
    assert "chmod 600" in why(environ)
    file.unlink()
    assert "cannot be read" in why(environ)
    assert "absolute" in str_of(written(home, {"source": "file", "path": "box.json"}))


def str_of(environ: dict[str, str]) -> str:
    with pytest.raises(ConfigInvalidError) as caught:
        load(environ)
    return str(caught.value)


def test_a_program_is_asked_once_for_all_and_gets_only_the_named_variables(home: Path) -> None:
    script = (
        f'cat >> "{home}/asked"; env > "{home}/env"; echo \'{{"values": {{"a": "{CANARY}"}}}}\''
    )
    provider = {
        "source": "exec",
        "command": str(program(home, script)),
        "passEnv": ["BOX"],
        "trustedDirs": [str(home)],
    }
    environ = written(home, provider, "a") | {"BOX": "on", "OPENAI_API_KEY": "sk-no"}
    assert token(environ) == CANARY
    assert json.loads((home / "asked").read_text()) == {
        "protocolVersion": 1,
        "provider": "box",
        "ids": ["a"],
    }
    got = (home / "env").read_text()
    assert "BOX=on" in got
    assert "OPENAI_API_KEY" not in got


def test_who_looks_for_the_gateway_asks_a_program_only_for_its_token(home: Path) -> None:
    command = str(program(home, f'echo x >> "{home}/asked"; echo {CANARY}'))
    provider = {"source": "exec", "command": command, "jsonOnly": False}
    environ = written(home, provider)
    assert find(environ).token == CANARY
    assert (home / "asked").read_text() == "x\n"
    tree = json.loads((home / "skerry.json").read_text())
    key = tree["gateway"]["auth"]["token"]
    tree["gateway"]["auth"]["token"] = "0123456789abcdef"  # noqa: S105 - no secret
    tree["models"] = {"providers": {"p": {"baseUrl": "http://127.0.0.1/v1", "apiKey": key}}}
    write_atomic(home / "skerry.json", json.dumps(tree).encode())
    assert find(environ).token == "0123456789abcdef"  # noqa: S105 - no secret
    assert (home / "asked").read_text() == "x\n"
    held = load(environ).config.models.providers["p"].api_key
    assert held is not None
    assert held.get_secret_value() == CANARY


def test_a_program_whose_answer_is_the_secret(home: Path) -> None:
    command = str(program(home, f"echo {CANARY}"))
    assert token(written(home, {"source": "exec", "command": command, "jsonOnly": False})) == CANARY
    assert "no JSON" in why(written(home, {"source": "exec", "command": command}))
    deep = str(program(home, "yes '[' | head -n 50000"))
    assert "no JSON" in why(written(home, {"source": "exec", "command": deep}))


@pytest.mark.parametrize(
    ("script", "more", "text"),
    [
        ("sleep 60", {"timeoutMs": 200}, "in time"),
        ("sleep 60 & exec >&-; sleep 60", {"timeoutMs": 200}, "in time"),
        (f"echo {CANARY}; exit 3", {}, "code 3"),
        ("head -c 5000 /dev/zero", {"maxOutputBytes": 4096}, "printed more than"),
        (f"echo {CANARY}", {"trustedDirs": ["/usr"]}, "trustedDirs"),
    ],
)
def test_a_program_that_does_not_do_as_it_should_is_no_source(
    home: Path, script: str, more: dict[str, Any], text: str
) -> None:
    provider = {"source": "exec", "command": str(program(home, script)), "jsonOnly": False}
    assert text in why(written(home, provider | more))


def test_a_program_that_others_can_change_is_not_run(home: Path) -> None:
    command = program(home, f'touch "{home}/ran"; echo x')
    command.chmod(0o722)
    environ = written(home, {"source": "exec", "command": str(command), "jsonOnly": False})
    assert "change" in why(environ)
    command.chmod(0o700)
    home.chmod(0o777)
    assert "others can write" in why(environ)
    assert not (home / "ran").exists()
    home.chmod(0o700)


def test_checking_or_writing_the_configuration_runs_no_program(home: Path) -> None:
    command = program(home, f'touch "{home}/ran"; echo x')
    environ = written(home, {"source": "exec", "command": str(command), "jsonOnly": False})
    file = home / "skerry.json"
    assert not expand(source.read(file), environ).issues
    author = ConfigAuthor(environ=environ, state_dir=home)
    set_values(file, {"messages.queue.mode": "followup"}, author=author)
    assert not (home / "ran").exists()


def test_a_variable_must_be_in_the_allowlist_of_its_provider(home: Path) -> None:
    provider = {"source": "env", "allowlist": ["BOX"]}
    assert token(written(home, provider, "BOX") | {"BOX": CANARY}) == CANARY
    assert "allowlist" in why(written(home, provider, "OTHER") | {"OTHER": CANARY})
    assert "no 'box'" in why(written(home, {"source": "file"}, "x") | renamed(home))


def renamed(home: Path) -> dict[str, str]:
    """Takes the provider out of the file."""
    file = home / "skerry.json"
    tree = json.loads(file.read_text())
    del tree["secrets"]
    write_atomic(file, json.dumps(tree).encode())
    return {}
