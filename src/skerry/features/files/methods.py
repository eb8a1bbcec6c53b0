"""Gateway methods of the file tools: `files.changes` and `files.undo`."""

from functools import partial
from typing import Annotated, Final

import anyio.to_thread
from pydantic import Field

from skerry.features.files.undoing import (
    ChangeSelection,
    chosen,
    journal_of,
    last_turn,
    row,
    undone,
)
from skerry.gateway.frames import Json
from skerry.gateway.method import Call, Method, Params

_Text = Annotated[str, Field(max_length=1024)]


class ChangesParams(Params):
    """Parameters of `files.changes`: filters by agent, conversation, turn and file."""

    agent_id: _Text = ""
    session_key: _Text = ""
    turn: _Text = ""
    path: _Text = ""
    limit: Annotated[int, Field(ge=1, le=1000)] = 100


class UndoParams(ChangesParams):
    """Parameters of `files.undo`: the same filters, or ids; without any the last turn is undone."""

    ids: Annotated[tuple[_Text, ...], Field(max_length=1000)] = ()


async def files_changes(call: Call, params: ChangesParams) -> Json:
    """Lists the changes that can be undone, newest first."""
    journal = journal_of(call.context.config(), call.context.clock)
    selection = _selection(params)
    changes = await anyio.to_thread.run_sync(chosen, journal, selection)
    return {"changes": [row(change) for change in changes[: params.limit]]}


async def files_undo(call: Call, params: UndoParams) -> Json:
    """Reverts changes of files that have not changed since."""
    config = call.context.config()
    journal = journal_of(config, call.context.clock)
    selection = _selection(params, frozenset(params.ids))
    changes = await anyio.to_thread.run_sync(chosen, journal, selection)
    if not (params.ids or params.turn or params.path):
        changes = last_turn(changes)
    undo = partial(undone, config, journal, changes, call.context.records)
    result: Json = await anyio.to_thread.run_sync(undo)
    return result


def _selection(params: ChangesParams, ids: frozenset[str] = frozenset()) -> ChangeSelection:
    return ChangeSelection(params.agent_id, params.session_key, params.turn, params.path, ids)


METHODS: Final = (
    Method("files.changes", ChangesParams, files_changes),
    Method("files.undo", UndoParams, files_undo),
)
