"""`skerry models`: shows and chooses the model."""

import os
from argparse import Namespace
from datetime import MAXYEAR, UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import msgspec
from pydantic.alias_generators import to_camel

from skerry.app.setup import PRIMARY, gguf
from skerry.cli.failure import FailedError, complain
from skerry.cli.render import model_line, notice, one_line, show, show_json, table
from skerry.config.load import load
from skerry.features.models.models import ModelReport, all_models, model_report, trial, trust, use
from skerry.model.errors import ModelError
from skerry.ports.model import ModelInfo, ModelPick, ModelState, ModelStatus, RestingProfile
from skerry.providers.embedded_model import EMBEDDED
from skerry.providers.model_health import remedy_of
from skerry.providers.names import ModelNames


def run(arguments: Namespace) -> int:
    """Runs `skerry models list`, `status`, `use`, `trust` or `test`; returns the exit code."""
    match arguments.action:
        case "use":
            return _use(arguments)
        case "test":
            return _test(arguments)
        case "trust":
            return _trust(arguments)
        case "list":
            return _list(arguments)
        case _:
            return _status(anyio.run(model_report, os.environ), as_json=arguments.json)


def _list(arguments: Namespace) -> int:
    report = anyio.run(partial(model_report, os.environ, ask=not arguments.offline))
    for problem in report.problems:
        notice(one_line(f"{problem} The list has its known models."))
    models = list(report.models)
    if arguments.all:
        usable = {model.ref for model in models}
        models += [model for model in anyio.run(all_models, os.environ) if model.ref not in usable]
    if arguments.provider:
        models = [model for model in models if model.provider == arguments.provider]
    if arguments.json:
        show_json([_row(model) for model in models])
        return 0
    if not models:
        return _status(report, as_json=False) if not report.models else _none(arguments.provider)
    lines = [("MODEL", "NAME", "CONTEXT", "IMAGES", "$/M IN", "$/M OUT", "NOTE")]
    lines += [
        (
            model.ref,
            one_line(model.name),
            str(model.context_window),
            "yes" if "image" in model.input else "-",
            _price(model.cost.input),
            _price(model.cost.output),
            one_line(model.note),
        )
        for model in models
    ]
    show(table(lines))
    _tell_offers(report.status)
    return 0


def _none(provider: str) -> int:
    message = f"No model of {provider} can be used now."
    return complain(message, "List all models: skerry models list --all", "skerry models")


def _price(dollars: float) -> str:
    return f"{dollars:g}" if dollars else "-"


def _test(arguments: Namespace) -> int:
    """Calls a model once; prints its speed, or the kind of its failure."""
    result = anyio.run(trial, os.environ, arguments.model)
    if isinstance(result, ModelError):
        if arguments.json:
            failure = {"code": result.code, "message": str(result), "remedy": remedy_of(result)}
            show_json({"ok": False, "error": failure})
        return complain(f"{result} ({result.code})", remedy_of(result), "skerry models test")
    if arguments.json:
        show_json(
            {
                "ok": True,
                "model": result.model.ref,
                "firstTokenMs": round(result.first * 1000),
                "totalMs": round(result.total * 1000),
                "tokensPerSecond": round(result.tokens_per_second, 1),
                "usage": msgspec.to_builtins(result.usage),
            }
        )
        return 0
    show(f"{result.model.ref} answers.")
    show(f"first token after {result.first:.2f} s, whole answer after {result.total:.2f} s")
    speed = f", {result.tokens_per_second:.1f} tokens/s" if result.tokens_per_second else ""
    show(f"{result.usage.input} tokens in, {result.usage.output} out{speed}")
    if result.usage.cost.total:
        show(f"about ${result.usage.cost.total:.6f}")
    return 0


def _status(report: ModelReport, *, as_json: bool) -> int:
    status = report.status
    usable = status.state is not ModelState.UNAVAILABLE
    if as_json:
        show_json(
            {
                "state": status.state.value,
                "model": _row(status.model) if status.model else None,
                "message": status.message,
                "remedy": status.remedy,
                "gatewayRunning": report.running,
                "resting": msgspec.to_builtins(status.resting),
                "offers": msgspec.to_builtins(status.offers),
                "failure": msgspec.to_builtins(status.failure),
            }
        )
    else:
        if usable:
            show(f"{_subject(report)}: {model_line(status)}")
        if status.failure is not None:
            notice(one_line(f"Its last call failed: {status.failure.message}"))
            notice(status.failure.remedy)
        for resting in status.resting:
            reason = f"skipped {_end(resting)} ({resting.reason})"
            show(one_line(f"{reason}: {resting.profile}, {resting.model}"))
        _tell_offers(status)
    if usable:
        return 0
    return complain(status.message or "No model can be used.", status.remedy, "skerry models")


def _tell_offers(status: ModelStatus) -> None:
    for offer in status.offers:
        notice(one_line(f"{offer.text} {offer.remedy}"))


def _trust(arguments: Namespace) -> int:
    """Starts or stops the use of a local server; prints the answering model."""
    is_trusted = not arguments.withdraw
    report = anyio.run(partial(trust, os.environ, arguments.server, is_trusted=is_trusted))
    if not arguments.json:
        show(f"{arguments.server} is {'used from now on' if is_trusted else 'no longer used'}.")
    _status(report, as_json=arguments.json)
    return 0


def _end(resting: RestingProfile) -> str:
    end = datetime.fromtimestamp(resting.until / 1000, UTC).astimezone()
    return "until the next sign-in" if end.year == MAXYEAR else f"until {end:%Y-%m-%d %H:%M:%S}"


def _use(arguments: Namespace) -> int:
    choice: str = arguments.choice
    if choice == "auto":
        pick = ModelPick()
    elif choice.endswith(".gguf") or Path(choice).is_file():
        pick = ModelPick(file=str(gguf(choice)), pin=arguments.pin)
    elif "/" in choice.strip("/") or _is_alias(choice):
        pick = ModelPick(choice)
    else:
        raise FailedError(
            f"{choice!r} is not provider/model, an alias, a GGUF file or auto.",
            "List the usable models: skerry models list",
            2,
        )
    report = anyio.run(use, os.environ, pick)
    code = _status(report, as_json=arguments.json)
    model = report.status.model
    if pick.file and model is not None and model.provider != EMBEDDED:
        notice(f"The file is not used, because {_reason()}. To use it anyway:")
        notice(f"  skerry models use {choice} --pin")
    return code


def _is_alias(choice: str) -> bool:
    return choice.lower() in ModelNames(load(os.environ, fetch=False).config.agents).aliases


def _reason() -> str:
    """Returns the reason why the file does not answer."""
    if load(os.environ, fetch=False).config.agents.defaults.model.primary:
        return f"{PRIMARY} names a model"
    return "a provider's key in the environment and a local model server have priority over a file"


def _subject(report: ModelReport) -> str:
    return "The running gateway answers with" if report.running else "A gateway would answer with"


def _row(model: ModelInfo) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(model)
    return _camel({"ref": model.ref, **fields, "input": sorted(model.input)})


def _camel(fields: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields with the camel-case names of the configuration and the protocol."""
    return {
        to_camel(name): _camel(value) if isinstance(value, dict) else value
        for name, value in fields.items()
    }
