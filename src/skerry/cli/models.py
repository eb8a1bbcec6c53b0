"""`skerry models`: which model answers, and choosing one."""

import os
from argparse import Namespace
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import anyio

from skerry.app.models import Standing, expected, standing, unusable
from skerry.app.setup import PRIMARY
from skerry.cli.failure import complain
from skerry.cli.render import model_line, notice, one_line, show, show_json, table
from skerry.config.gateway import LOCK
from skerry.config.load import load, prepare
from skerry.config.write import set_values
from skerry.infra.lock import owner
from skerry.model.errors import ConfigError
from skerry.ports.model import ModelInfo, ModelState
from skerry.providers.packaged import EMBEDDED

MAGIC: Final = b"GGUF"
FILE: Final = "models.embedded.file"


def run(arguments: Namespace) -> int:
    """Run `skerry models list`, `status` or `use`; return the exit code."""
    match arguments.action:
        case "use":
            return _use(arguments)
        case "list":
            return _list(anyio.run(standing, os.environ), as_json=arguments.json)
        case _:
            return _status(anyio.run(standing, os.environ), as_json=arguments.json)


def _list(found: Standing, *, as_json: bool) -> int:
    if as_json:
        show_json([_row(model) for model in found.models])
    elif not found.models:
        return _status(found, as_json=False)
    else:
        lines = [("MODEL", "NAME", "CONTEXT", "NOTE")]
        lines += [
            (model.ref, one_line(model.name), str(model.context_window), one_line(model.note))
            for model in found.models
        ]
        show(table(lines))
    return 0


def _status(found: Standing, *, as_json: bool) -> int:
    status = found.status
    usable = status.state is not ModelState.UNAVAILABLE
    if as_json:
        show_json(
            {
                "state": status.state.value,
                "model": _row(status.model) if status.model else None,
                "message": status.message,
                "remedy": status.remedy,
                "gatewayRunning": found.running,
            }
        )
    elif usable:
        show(f"{_who(found)}: {model_line(status)}")
    if usable:
        return 0
    return complain(status.message or "No model can be used.", status.remedy, "skerry models")


def _use(arguments: Namespace) -> int:
    choice: str = arguments.choice
    changes: dict[str, Any]
    if choice == "auto":
        changes = {PRIMARY: None}
    elif choice.endswith(".gguf") or Path(choice).is_file():
        file = _gguf(choice)
        changes = {FILE: str(file)}
        if arguments.pin:
            changes[PRIMARY] = f"{EMBEDDED}/{file.stem}"
    elif "/" in choice.strip("/"):
        if failure := anyio.run(unusable, os.environ, choice):
            raise failure
        changes = {PRIMARY: choice}
    else:
        return complain(
            f"{choice!r} is neither provider/model, nor a GGUF file, nor auto.",
            "`skerry models list` shows what can be used.",
            "skerry models use",
            2,
        )
    before = prepare(os.environ).config
    set_values(before.path, changes)
    if owner(before.state_dir / LOCK) is not None:
        notice("The gateway that runs now notices after a restart.")
    found = anyio.run(expected, os.environ)
    code = _status(found, as_json=arguments.json)
    model = found.status.model
    if FILE in changes and model is not None and model.provider != EMBEDDED:
        notice(f"Not the file, because {_reason()}. To use the file all the same:")
        notice(f"  skerry models use {choice} --pin")
    return code


def _gguf(choice: str) -> Path:
    """Return the absolute path of a file that looks like a model.

    Raises:
        ConfigError: it does not.
        OSError: it cannot be read.
    """
    file = Path(choice).expanduser().absolute()
    with file.open("rb") as opened:
        if opened.read(len(MAGIC)) == MAGIC:
            return file
    error = ConfigError(f"{file} is no GGUF file: it does not begin with the letters GGUF.")
    error.remedy = "Name a model in the format of llama.cpp; the download may be broken."
    raise error


def _reason() -> str:
    """Say why another model than the file answers."""
    if load(os.environ).config.agents.defaults.model.primary:
        return f"{PRIMARY} names a model"
    return "a provider's key in the environment and a local model server come before a file"


def _who(found: Standing) -> str:
    return "The running gateway answers with" if found.running else "A gateway would answer with"


def _row(model: ModelInfo) -> dict[str, Any]:
    return {"ref": model.ref, **asdict(model)}
