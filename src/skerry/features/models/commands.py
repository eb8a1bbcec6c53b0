"""The commands `/model`, `/models` and `/think`: choose the model and its reasoning effort."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from skerry.app.command_dependencies import CommandDependencies
from skerry.commands.table import Argument, Command, CommandCall, CommandError
from skerry.config.root import Config
from skerry.model.errors import ModelUnavailableError
from skerry.model.session import SessionSettings
from skerry.model.thinking import ThinkingLevel, nearest, thinking_level
from skerry.ports.model import ModelInfo, Models
from skerry.runtime.admission import find_model
from skerry.store import Reader, Store, Unit, archive, sessions

PAGE: Final = 20
"""Number of models on a page."""
_TAKEN_BACK: Final = frozenset({"default", "reset", "inherit"})


@dataclass(frozen=True, slots=True)
class _Choosing:
    """Handlers of the commands."""

    models: Models
    store: Store
    config: Callable[[], Config]

    async def think(self, call: CommandCall) -> str:
        """Answers `/think`."""
        word = call.arguments.lower()
        if word in _TAKEN_BACK:
            await self.store.write(lambda unit: _change(unit, call, thinking_level=None))
            return "/think is as configured from the next message on."
        try:
            level = thinking_level(word) if word else None
        except ValueError as error:
            raise CommandError(f"{error}, and default.") from None
        if level is not None:
            await self.store.write(lambda unit: _change(unit, call, thinking_level=level))
        return await self._thinks(call, level)

    async def _thinks(self, call: CommandCall, level: ThinkingLevel | None) -> str:
        session_settings = await self.store.read(lambda reader: _settings(reader, call))
        chosen = (
            session_settings.thinking_level
            or self.config().thinking(call.key.agent)
            or ThinkingLevel.LOW
        )
        when = " from the next message on" if level else ""
        lines = [f"/think is {chosen}{when}."]
        try:
            _, model = await self.models.choose(
                session_settings.model or self.config().primary_model(call.key.agent)
            )
        except ModelUnavailableError:
            return lines[0]
        used = nearest(chosen, model.levels)
        if used is not chosen:
            lines.append(f"`{model.ref}` has no level {chosen}; it uses {used}.")
        if level is None:
            lines.append(f"`{model.ref}` takes {', '.join(model.levels)}.")
        return " ".join(lines)

    async def model(self, call: CommandCall) -> str:
        """Answers `/model`."""
        word, _, rest = call.arguments.partition(" ")
        match word.lower():
            case "" | "status":
                return await self._status(call)
            case "list":
                return await self.listing(replace(call, arguments=rest.strip()))
            case one if one in _TAKEN_BACK:
                await self.store.write(lambda unit: _change(unit, call, model=None))
                return "This conversation uses the configured model from the next message on."
        ref = await self._resolve(call.arguments.strip())
        await self.store.write(lambda unit: _change(unit, call, model=ref))
        return f"This conversation uses `{ref}` from the next message on."

    async def _status(self, call: CommandCall) -> str:
        session_settings = await self.store.read(lambda reader: _settings(reader, call))
        status = await self.models.status()
        usual = f"`{status.model.ref}`" if status.model else "none"
        if session_settings.model:
            try:
                await self.models.choose(session_settings.model)
            except ModelUnavailableError as error:
                missing = f" It cannot be used now, so another model answers: {error}"
            else:
                missing = ""
            asks = f"This conversation uses `{session_settings.model}`, others {usual}."
            return f"{asks}{missing} `/model default` resets it."
        return f"This conversation uses {usual}. `/model list` lists the models."

    async def _resolve(self, text: str) -> str:
        """Returns the reference for a number of the list or a name."""
        if text.isdecimal():
            offered = await self.models.listing()
            if 1 <= int(text) <= len(offered):
                return offered[int(text) - 1].ref
            raise CommandError(f"`/model list` has {len(offered)} models.")
        ref_of_text = await find_model(self.models, self.config(), text)
        name, _, profile = text.rpartition("@")
        ref = ref_of_text or await find_model(self.models, self.config(), name)
        if ref is None:
            raise CommandError(f"No usable model is called `{text}`: `/model list`.")
        return ref_of_text or f"{ref}@{profile}"

    async def listing(self, call: CommandCall) -> str:
        """Answers `/models`."""
        return _page(await self.models.listing(), call.arguments.lower().split())


def commands(desk: CommandDependencies) -> list[Command]:
    """Returns `/model`, `/models` and `/think`."""
    runtime = desk.dispatcher.runtime
    return model_commands(runtime.models, runtime.store, desk.config)


def model_commands(models: Models, store: Store, config: Callable[[], Config]) -> list[Command]:
    """Returns `/model`, `/models` and `/think`."""
    does = _Choosing(models, store, config)
    return [
        Command(
            "think",
            "shows or sets the model's reasoning effort",
            does.think,
            accepts_arguments=True,
            listed=True,
            aliases=("thinking", "t"),
            arguments=(Argument("level", choices=(*ThinkingLevel, "default")),),
            category="options",
        ),
        Command(
            "model",
            "shows or sets the model of this conversation",
            does.model,
            accepts_arguments=True,
            listed=True,
            arguments=(
                Argument(
                    "model",
                    "a number of the list, provider/model, or an alias",
                    ("list", "status", "default"),
                ),
            ),
            category="options",
        ),
        Command(
            "models",
            "lists the models that can be used",
            does.listing,
            accepts_arguments=True,
            listed=True,
            arguments=(Argument("provider"), Argument("page")),
            category="options",
        ),
    ]


def _page(models: list[ModelInfo], words: list[str]) -> str:
    """Returns a page of the models, each with its number for `/model`."""
    if not models:
        return "No model can be used; run `skerry models status` for the reason."
    page = int(words.pop()) if words and words[-1].isdecimal() else 1
    provider = " ".join(words)
    rows = [
        f"{number}. `{model.ref}` {model.name}".rstrip()
        for number, model in enumerate(models, 1)
        if provider in {"", model.provider.lower()}
    ]
    if not rows:
        providers = ", ".join(dict.fromkeys(f"`{model.provider}`" for model in models))
        raise CommandError(f"`{provider}` has no model that can be used. Providers: {providers}.")
    pages = -(-len(rows) // PAGE)
    if not 1 <= page <= pages:
        raise CommandError(f"The list has {pages} pages.")
    page_rows = rows[(page - 1) * PAGE : page * PAGE]
    name = f"{provider} " if provider else ""
    footer = [f"Page {page} of {pages}; `/models {name}{page % pages + 1}` shows another."]
    return "\n".join(page_rows + (["", *footer] if pages > 1 else []))


def _settings(reader: Reader, call: CommandCall) -> SessionSettings:
    session = sessions.find(reader, str(call.key))
    return session.settings if session else SessionSettings()


def _change(unit: Unit, call: CommandCall, **changes: Any) -> None:
    session = sessions.find(unit, str(call.key))
    if session is None:
        raise CommandError("This conversation has just ended; write again.")
    settings = msgspec.structs.replace(session.settings, **changes)
    archive.change(unit, session.session_id, label=session.label, settings=settings)
