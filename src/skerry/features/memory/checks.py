"""Checks of the memory: the state of its index, and whether QMD can be run."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread

from skerry.client.client import GatewayClient
from skerry.client.discover import find
from skerry.config.root import Config
from skerry.features.memory.assembly import CORE
from skerry.features.memory.index_settings import MemoryPaths
from skerry.features.memory.inspection import Inspection, look
from skerry.features.memory.late import embedding_models
from skerry.features.memory.memories import FOLDER
from skerry.features.memory.qmd_process import QmdError
from skerry.features.memory.qmd_program import QmdHome, find_program
from skerry.infra.clock import SystemClock
from skerry.infra.http import HttpClient
from skerry.model.errors import ClientError, GatewayUnreachableError
from skerry.model.ids import AgentId
from skerry.ports.checks import Check, Level
from skerry.sdk.features import Installation
from skerry_recall.embed import EmbeddingError, Kind

NAME: Final = "memory qmd"
MAX_NAMED: Final = 3
"""Limit on the files that a check names."""
LATE_MS: Final = 60_000
"""Age of a change by which a running gateway has indexed it: it checks every 15 s or sooner."""
MODEL_SECONDS: Final = 60.0
"""Time limit for one vector; loading a local model for the first time takes a second or two."""
INDEX: Final = "Run: skerry memory index"


async def examine(installation: Installation) -> list[Check]:
    """Returns the state of each agent's index, and of QMD."""
    config = installation.config
    if config is None:
        return []
    if config.plugins.slots.memory != CORE:
        return []  # the plugin in the slot has its own check
    checks = [check for agent in config.agents.ids for check in await index(config, agent)]
    return [*checks, *await qmd(config, installation.environ)]


async def index(config: Config, agent: AgentId, *, whole: bool = False) -> list[Check]:
    """Returns the state of an agent's index; `whole` reads all of it for damage."""
    if not config.memory_search(agent).enabled:
        return [Check("memory", Level.OK, f"{agent}: switched off.")]
    return list(_index(await _look(config, agent, whole=whole), agent))


async def _look(config: Config, agent: AgentId, *, whole: bool) -> Inspection | None:
    path = config.state_dir / FOLDER / f"{agent}.sqlite"
    if not path.exists():
        return None
    extra = tuple(Path(extra_path) for extra_path in config.memory_search(agent).extra_paths)
    paths = MemoryPaths(config.workspace(agent), extra)
    return await anyio.to_thread.run_sync(partial(look, path, paths, whole=whole))


def _index(inspection: Inspection | None, agent: AgentId) -> Iterator[Check]:
    name = f"memory of {agent}"
    if inspection is None:
        message = "not indexed yet; the first search, or a running gateway, indexes it."
        yield Check(name, Level.OK, message)
        return
    if inspection.damage:
        remedy = "Nothing is lost: skerry memory index --force rebuilds it from the files."
        yield Check(name, Level.FAILURE, f"the index is damaged: {inspection.damage}.", remedy)
        return
    counts = f"{_counted(inspection.files, 'file')}, {_counted(inspection.passages, 'passage')}"
    counts += f", {inspection.vectors} with a vector"
    yield Check(name, Level.OK, f"{counts} of {inspection.model}" if inspection.model else counts)
    if inspection.encodings:
        yield Check(name, Level.OK, inspection.encodings)
    if inspection.failed:
        named = "; ".join(f"{path}: {reason}" for path, reason in inspection.failed[:MAX_NAMED])
        message = f"{len(inspection.failed)} files cannot be indexed: {named}."
        yield Check(name, Level.WARNING, message, "Repair or remove them; the others are indexed.")


async def thorough(config: Config, environ: Mapping[str, str], agent: AgentId) -> list[Check]:
    """Returns all checks of an agent's memory; requests one vector from the model."""
    checks = await index(config, agent, whole=True)
    search = config.memory_search(agent)
    inspection = await _look(config, agent, whole=False) if search.enabled else None
    answer = await _request_state(environ, agent)
    if inspection is not None and not inspection.damage:
        checks += _fresh(inspection, is_kept=answer is not None)
        if search.provider != "none":
            checks += _vectors(inspection)
    if answer is not None:
        checks += _running(answer)
    elif search.enabled:
        checks.append(await _model(config, environ, agent))
    return [*checks, *await qmd(config, environ)]


def _fresh(inspection: Inspection, *, is_kept: bool) -> Iterator[Check]:
    """Yields whether the index matches the files; `is_kept` if a gateway keeps it up to date."""
    now = SystemClock().now_ms()
    late = [path for path, at in inspection.stale if not is_kept or now - at > LATE_MS]
    if not late:
        message = "up to date, kept by a gateway" if is_kept else "up to date; no gateway runs"
        yield Check("memory watcher", Level.OK, f"{message}.")
        return
    suffix = " and others" if len(late) > MAX_NAMED else ""
    message = (
        f"{len(late)} files changed since they were indexed: {', '.join(late[:MAX_NAMED])}{suffix}."
    )
    if not is_kept:
        yield Check("memory watcher", Level.OK, f"{message} The next search indexes them.", INDEX)
        return
    remedy = f"{INDEX}. If it happens again, look for the reason with: skerry logs"
    yield Check("memory watcher", Level.WARNING, message, remedy)


def _vectors(inspection: Inspection) -> Iterator[Check]:
    """Yields warnings about passages without a vector."""
    refused = sum(count for _, count in inspection.refused)
    lacking = inspection.passages - inspection.vectors - refused
    if refused:
        reasons = "; ".join(
            f"{count}: {reason}" for reason, count in inspection.refused[:MAX_NAMED]
        )
        message = (
            f"{inspection.model} refused a vector for {refused} of {inspection.passages} passages"
            f" ({reasons})."
        )
        remedy = "Word search finds them. They are retried after a day; now: skerry memory index"
        yield Check("memory vectors refused", Level.WARNING, message, f"{remedy} --force")
    if lacking:
        message = (
            f"{lacking} of {inspection.passages} passages have no vector: only word search finds"
            " them."
        )
        yield Check("memory vectors", Level.WARNING, message, INDEX)


async def _request_state(environ: Mapping[str, str], agent: AgentId) -> dict[str, Any] | None:
    """Returns the memory's state in a running gateway, with a search; None without a gateway."""
    try:
        async with GatewayClient(find(environ), scopes=("operator.read",)) as client:
            params = {"agentId": agent}
            state: dict[str, Any] = await client.request("memory.status", params)
            answer = await client.request("memory.search", params | {"query": "memory", "limit": 1})
            return state | {"answer": answer}
    except GatewayUnreachableError:
        return None
    except ClientError as error:
        return {"error": str(error), "remedy": error.remedy}


def _running(status: Mapping[str, Any]) -> Iterator[Check]:
    """Yields the backend that answers in the running gateway, and its fallback."""
    if "error" in status:
        yield Check("memory answers", Level.FAILURE, status["error"], status["remedy"])
        return
    answer = status["answer"]
    compared = "words and meaning" if answer["mode"] == "hybrid" else "words"
    model = f", {answer['provider']}/{answer['model']}" if answer["model"] else ""
    yield Check("memory answers", Level.OK, f"{answer['backend']}, by {compared}{model}")
    if fallback := answer["fallback"] or status["fallback"]:
        message = f"{fallback['from']} does not answer: {fallback['reason']}"
        remedy = "It is retried automatically; until then fewer passages are found."
        yield Check("memory fallback", Level.WARNING, message, remedy)
    if progress := status["progress"]:
        message = f"{progress['stage']}: {progress['done']} of {progress['total']}"
        yield Check("memory job", Level.OK, message)


async def _model(config: Config, environ: Mapping[str, str], agent: AgentId) -> Check:
    """Checks the embedding model; a hosted model is only asked by a running gateway."""
    name = "memory model"
    async with HttpClient() as http, anyio.create_task_group() as tasks:
        models = embedding_models.Embedders(
            lambda: config, http, environ, tasks, book=lambda _: None, allow=lambda _: None
        )
        first = next(iter(models.of(agent).embedders), None)
        if first is None:
            check = Check(name, Level.OK, "none: only words are searched.")
        elif not first.local:
            check = Check(name, Level.OK, f"{first.model}, hosted; only a running gateway asks it.")
        else:
            try:
                with anyio.fail_after(MODEL_SECONDS):
                    await first.embed(["memory"], Kind.QUERY)
                check = Check(name, Level.OK, f"{first.model} answers")
            except EmbeddingError as error:
                check = Check(name, Level.WARNING, f"{first.model}: {error}", error.remedy)
            except TimeoutError:
                message = f"{first.model} did not answer within {MODEL_SECONDS:g} s."
                check = Check(
                    name, Level.WARNING, message, "Until it answers, only words are searched."
                )
        tasks.cancel_scope.cancel()
    return check


async def qmd(config: Config, environ: Mapping[str, str]) -> list[Check]:
    """Returns the QMD program and its Node; nothing if QMD is not configured."""
    if config.memory.backend != "qmd":
        return []
    anywhere = QmdHome(Path("/"))  # nothing is written; the agent's folder may not exist yet
    try:
        program = await find_program(config.memory.qmd.command, environ, anywhere)
    except QmdError as error:
        message = f"{error} The built-in memory answers instead."
        return [Check(NAME, Level.WARNING, message, error.remedy)]
    runs = f", Node {program.node}" if program.node else ""
    return [Check(NAME, Level.OK, f"{program.path}{runs}")]


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
