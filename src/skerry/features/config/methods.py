"""Methods that show and change the configuration: `config.get`, `set`, `patch`, `apply`."""

import json
from typing import Annotated, Any, ClassVar, Final

import anyio.to_thread
import msgspec
from pydantic import Field

from skerry import __version__
from skerry.config.client_view import (
    ClientView,
    as_object,
    is_hash_of,
    keyed_hash,
    keyed_hex,
    patched,
    replacement,
    view_for_clients,
)
from skerry.config.expand import Expanded
from skerry.config.json_schema import for_forms
from skerry.config.paths import show_key_path
from skerry.config.redact import public, redact_config
from skerry.config.reload_rules import needs_restart
from skerry.config.source import MAX_BYTES, Source
from skerry.gateway.config_writes import Edit, applied, invalid_config, issue_row, written
from skerry.gateway.configuration import Applied, ConfigFile
from skerry.gateway.frames import Json
from skerry.gateway.method import Call, Method, NoParams, Params, RefusedError
from skerry.infra.clock import iso
from skerry.model.errors import (
    ConfigInvalidError,
)

_HASH_REQUIRED: Final = "config base hash required; re-run config.get and retry"
_HASH_CHANGED: Final = "config changed since last load; re-run config.get and retry"
_HINTS: Final = {
    "needed": "Restart the gateway for: {}.",
    "automatic": "The gateway restarts for {} when no run is active.",
}

Raw = Annotated[str, Field(min_length=1, max_length=MAX_BYTES)]
BaseHash = Annotated[str, Field(min_length=1, max_length=128)]


class SetParams(Params):
    """Parameters of `config.set`."""

    raw: Raw
    base_hash: BaseHash | None = None


class ApplyParams(SetParams):
    """Parameters of `config.apply`."""

    ignored: ClassVar = {
        **dict.fromkeys(
            ("sessionKey", "deliveryContext", "note"),
            "The result of the change is only in this response.",
        ),
        "restartDelayMs": "A due restart waits for the active runs.",
    }


class PatchParams(ApplyParams):
    """Parameters of `config.patch`."""

    ignored: ClassVar = {
        **ApplyParams.ignored,
        "replacePaths": "Lists are always replaced completely.",
    }


async def config_get(call: Call, _params: NoParams) -> Json:
    """Returns the file, its values, and the effective configuration with defaults."""
    configuration = call.context.configuration
    file = await configuration.look()
    view = _view(call, file)
    payload: dict[str, Json] = {
        "path": str(file.source.path),
        "exists": file.exists,
        # Comments may contain secrets, so the text is generated from the parsed tree.
        "raw": _text(view.parsed) if file.source.exists else None,
        "parsed": view.parsed,
        "resolved": view.resolved,
        "config": view.config,
        "valid": not file.issues,
        "hash": _hash(call, file.source),
        "issues": [issue_row(issue) for issue in file.issues],
        "warnings": [issue_row(issue) for issue in file.loaded.warnings] if file.loaded else [],
        "legacyIssues": [],
    }
    if call.protocol >= 4:  # noqa: PLR2004 - the version with these fields
        files = file.expanded.files if file.expanded else ()
        payload |= {
            "includedPaths": [str(path) for path in files],
            "includeProvenance": [],
            "agentRosterIncludeOwned": _owned(file, "agents"),
            "bindingsIncludeOwned": _owned(file, "bindings"),
            "sourceConfig": view.resolved,
            "runtimeConfig": redact_config(call.context.config(), configuration.expanded.used),
            "configRevisionHash": configuration.revision_of(file.expanded)
            if file.expanded
            else None,
            "appliedConfigHash": configuration.revision,
        }
    return payload


async def config_set(call: Call, params: SetParams) -> Json:
    """Writes a whole configuration, and applies it."""
    return await _replace(call, params, "config.set")


async def config_apply(call: Call, params: ApplyParams) -> Json:
    """Writes a whole configuration, and applies it, even when the file is unchanged."""
    return await _replace(call, params, "config.apply")


async def config_patch(call: Call, params: PatchParams) -> Json:
    """Merges an object into the file, where null deletes, and applies it."""
    file = await _checked_file(call, params)
    patch = _parsed(call, params, file)
    view = _view(call, file)

    def edit(before: Source, expanded: Expanded) -> dict[str, Any]:
        _same(call, before, file)
        views = (view.parsed, view.resolved, view.config, expanded.tree)
        return patched(patch, before.parsed, *views)

    return await _write(call, edit, "config.patch")


async def config_schema(call: Call, _params: NoParams) -> Json:
    """Returns the JSON Schema of the configuration, and the hints for a form."""
    schema, hints = await anyio.to_thread.run_sync(for_forms)  # the first call reads a file
    return {
        "schema": msgspec.Raw(schema),
        "uiHints": msgspec.Raw(hints),
        "version": __version__,
        "generatedAt": iso(call.context.started_ms),
    }


async def _replace(call: Call, params: SetParams, method: str) -> Json:
    file = await _checked_file(call, params)
    tree = _parsed(call, params, file)
    if method == "config.apply" and file.expanded and tree == file.source.parsed:
        return _applied(call, await applied(call, call.context.configuration.reload()), method)
    view = _view(call, file)

    def edit(before: Source, expanded: Expanded) -> dict[str, Any]:
        _same(call, before, file)
        return replacement(tree, before, expanded, view)

    return await _write(call, edit, method)


async def _checked_file(call: Call, params: SetParams) -> ConfigFile:
    file = await call.context.configuration.look()
    if not file.exists:
        return file
    if params.base_hash is None:
        raise RefusedError(_HASH_REQUIRED)
    if not is_hash_of(params.base_hash, call.context.configuration.hash_key, file.source):
        raise RefusedError(_HASH_CHANGED)
    return file


def _same(call: Call, before: Source, file: ConfigFile) -> None:
    """Refuses a file that has changed since it was read."""
    if not is_hash_of(before.hash, call.context.configuration.hash_key, file.source):
        raise RefusedError(_HASH_CHANGED)


def _parsed(call: Call, params: SetParams, file: ConfigFile) -> dict[str, Any]:
    try:
        return as_object(params.raw, str(file.source.path))
    except ConfigInvalidError as error:
        raise invalid_config(call, error) from None


async def _write(call: Call, edit: Edit, method: str) -> Json:
    return _applied(call, await written(call, edit, method), method)


def _applied(call: Call, applied: Applied, method: str) -> Json:
    changed = [show_key_path(path) for path in applied.changed]
    restart = needs_restart(applied.changed)
    due = call.context.configuration.restart
    hint = _HINTS[due].format(", ".join(restart)) if restart and due != "none" else None
    payload: dict[str, Json] = {
        "ok": True,
        "path": str(applied.source.path),
        "config": public(applied.expanded.merged),
        "hash": _hash(call, applied.source),
        "changedPaths": changed,
        "restartPaths": restart,
        "restart": due,
        "pendingPaths": list(call.context.configuration.pending),
        "sentinel": {
            "persisted": False,
            "payload": {
                "kind": method.replace(".", "-"),
                "status": "ok",
                "ts": call.context.clock.now_ms(),
                "message": hint,
                "stats": {
                    "mode": method,
                    "root": str(applied.source.path),
                    "requiresRestart": bool(restart),
                },
            },
        },
    }
    if not changed:
        payload["noop"] = True
    return payload


def _view(call: Call, file: ConfigFile) -> ClientView:
    configuration = call.context.configuration
    if file.loaded is not None:
        return view_for_clients(file.source, file.loaded.expanded, file.loaded.config)
    in_force = redact_config(call.context.config(), configuration.expanded.used)
    return ClientView(public(file.source.parsed), public(configuration.expanded.merged), in_force)


def _owned(file: ConfigFile, section: str) -> bool:
    return file.expanded is not None and file.expanded.includes.owner((section,)) is not None


def _hash(call: Call, read: Source) -> str:
    """Returns the hash with a key in both versions: a plain one would reveal a weak password."""
    if call.protocol < 4:  # noqa: PLR2004 - the version that has 64 hex digits
        return keyed_hex(call.context.configuration.hash_key, read.raw)
    return keyed_hash(call.context.configuration.hash_key, read.raw)


def _text(tree: Json) -> str:
    return json.dumps(tree, indent=2, ensure_ascii=False) + "\n"


METHODS: Final = (
    Method("config.get", NoParams, config_get),
    Method("config.set", SetParams, config_set),
    Method("config.patch", PatchParams, config_patch),
    Method("config.apply", ApplyParams, config_apply),
    Method("config.schema", NoParams, config_schema),
)
