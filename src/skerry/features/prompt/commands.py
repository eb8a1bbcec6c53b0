"""`/context`: shows the prompt of a conversation's next message, and the size of each part."""

from collections.abc import Sequence
from typing import Final

import msgspec

from skerry.app.command_dependencies import CommandDependencies
from skerry.commands.table import Argument, Command, CommandCall, CommandError
from skerry.model.errors import ModelError
from skerry.model.ids import SessionKey
from skerry.model.message import CHARS_PER_TOKEN
from skerry.ports.prompt import PromptReport
from skerry.runtime.prompt_report import report
from skerry.runtime.run_context import Runtime
from skerry.store import Unit, frozen_prompt, sessions

_RELOAD: Final = "reload"
_FORMS: Final = ("list", "detail", "json", _RELOAD)


def commands(desk: CommandDependencies) -> list[Command]:
    """Returns `/context`."""

    async def context(call: CommandCall) -> str:
        form = call.arguments.lower() or "list"
        if form not in _FORMS:
            raise CommandError(f"/context takes {', '.join(_FORMS)}.")
        if form == _RELOAD:
            return await _reload(desk.dispatcher.runtime, call.key)
        try:
            prompt = await report(desk.dispatcher.runtime, call.key)
        except ModelError as error:
            raise CommandError(f"{error} {error.remedy}".rstrip()) from error
        if form == "json":
            fields = msgspec.to_builtins(prompt)
            del fields["system"]
            text = msgspec.json.format(msgspec.json.encode(fields), indent=2).decode()
            return f"```json\n{text}\n```"
        return "\n".join(_lines(prompt, detail=form == "detail"))

    return [
        Command(
            "context",
            "shows the prompt of a message and its size; `reload` reads the files again",
            context,
            accepts_arguments=True,
            listed=True,
            arguments=(Argument("form", choices=_FORMS),),
            category="status",
        )
    ]


async def _reload(runtime: Runtime, key: SessionKey) -> str:
    def drop(unit: Unit) -> None:
        if (session := sessions.find(unit, str(key))) is not None:
            frozen_prompt.drop_parts(unit, session.session_id)

    await runtime.store.write(drop)
    runtime.prompts.forget()
    return "The next message reads the files of the workspace again."


def _lines(prompt: PromptReport, *, detail: bool) -> Sequence[str]:
    chars = sum(part.chars for part in prompt.parts)
    last = prompt.conversation_tokens
    tokens = chars // CHARS_PER_TOKEN
    lines = [f"Before the messages, `{prompt.model}` receives about {tokens:,} tokens."]
    if detail:
        lines += ["", *(f"- {part.name}: {part.chars:,} characters" for part in prompt.parts)]
    if prompt.files:
        lines += ["", "Files of the workspace:"]
        lines += [
            f"- {file.name}: {file.chars:,} of {file.raw:,} characters"
            if detail or file.chars < file.raw
            else f"- {file.name}: {file.raw:,} characters"
            for file in prompt.files
        ]
    used = f"; the last call had {last:,} tokens" if last else ""
    lines += ["", f"The conversation has {prompt.entries} entries{used}."]
    return [*lines, *prompt.notes]
