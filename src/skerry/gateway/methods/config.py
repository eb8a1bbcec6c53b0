"""The method `config.get`: the configuration without its secrets."""

import json
from typing import Final

import anyio.to_thread

from skerry.config import source
from skerry.config.redact import redact, redact_config
from skerry.config.source import Source
from skerry.gateway.frames import Json
from skerry.gateway.method import Call, Method, NoParams
from skerry.model.errors import ConfigInvalidError, ConfigIssue


async def config_get(call: Call, _params: NoParams) -> Json:
    """Return the file, what it says, and what holds with the defaults filled in."""
    config = call.context.config()
    issues: tuple[ConfigIssue, ...] = ()
    try:
        file = await anyio.to_thread.run_sync(source.read, config.path)
    except ConfigInvalidError as error:
        file = Source(config.path)
        issues = error.issues
    parsed = redact(file.parsed)
    resolved = redact_config(config)
    return {
        "path": str(config.path),
        "exists": file.exists or bool(issues),
        # Comments may hold secrets too, so the text is written anew from what was parsed.
        "raw": json.dumps(parsed, indent=2, ensure_ascii=False) + "\n" if file.exists else None,
        "parsed": parsed,
        "resolved": resolved,
        "config": resolved,
        "valid": not issues,
        "hash": file.hash,
        "issues": [{"path": issue.path, "message": issue.message} for issue in issues],
        "warnings": [],
        "legacyIssues": [],
    }


METHODS: Final = (Method("config.get", NoParams, config_get),)
