"""The methods that nobody needs for a conversation: imported when the first of them is called."""

from typing import Any, Final

from skerry.gateway.method import Method
from skerry.gateway.methods import (
    absent,
    agents,
    changes,
    config,
    devices,
    extension,
    files,
    forget,
    logs,
    markdown,
    memory,
    models,
    nodes,
    notes,
    notices,
    outbox,
    prompt,
    prune,
    recall,
    retry,
    sessions,
    usage,
)

METHODS: Final[tuple[Method[Any], ...]] = (
    *agents.METHODS,
    *sessions.METHODS,
    *changes.METHODS,
    *prune.METHODS,
    *recall.METHODS,
    *models.METHODS,
    *markdown.METHODS,
    *memory.METHODS,
    *notes.METHODS,
    *forget.METHODS,
    *files.METHODS,
    *notices.METHODS,
    *prompt.METHODS,
    *usage.METHODS,
    *logs.METHODS,
    *absent.METHODS,
    *extension.METHODS,
    *config.METHODS,
    *devices.METHODS,
    *nodes.METHODS,
    *outbox.METHODS,
    *retry.METHODS,
)
