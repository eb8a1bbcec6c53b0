"""Puts a run's system prompt together: what the files say now, and what a session began with."""

from collections import OrderedDict
from datetime import timedelta
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, field

from skerry.agent.files import WorkspaceFiles
from skerry.agent.prompt import Section, Subject, Today, joined, system_prompt
from skerry.agent.ritual import Ritual
from skerry.agent.workspace import MEMORY, FileText, Limits, Shown, fitted, is_private, wanted
from skerry.config.root import Config
from skerry.hooks.events import RunContext
from skerry.hooks.hooks import Hooks
from skerry.hooks.payloads import BootstrapDraft, BootstrapFile
from skerry.infra.zone import Calendar, host_zone
from skerry.model.ids import AgentId, SessionId
from skerry.model.run import RunRequest
from skerry.model.tool import ToolSpec
from skerry.policy.records import Records
from skerry.ports.model import ModelInfo

KEPT: Final = 256
"""Sessions whose notes are kept as they began; of another they are read anew."""


_MEMORY: Final = frozenset({MEMORY, MEMORY.lower()})


class Asked(Struct, frozen=True):
    """The run that a prompt is for."""

    request: RunRequest
    session_id: SessionId
    context: RunContext
    """What hooks are told of it."""
    compactions: int = 0
    """How often the conversation was compacted."""
    looking: bool = False
    """Whether somebody only wants to see the prompt: then nothing is noted."""


class Prompt(Struct, frozen=True):
    """A system prompt, and what it shows of each file of the workspace."""

    sections: tuple[Section, ...]
    files: tuple[Shown, ...]
    text: str
    """The sections as they are sent."""
    tool_chars: int
    """Characters that the tools have as JSON."""


class Prompts(Struct):
    """Made once; keeps what it read."""

    files: WorkspaceFiles = field(default_factory=WorkspaceFiles)
    records: Records = field(default_factory=Records)
    ritual: Ritual = field(default_factory=Ritual)
    _today: OrderedDict[tuple[SessionId, bool], Today] = field(default_factory=OrderedDict)
    """By session, and whether the notes are there: not everybody in it may read them."""
    _memory: OrderedDict[tuple[SessionId, bool], tuple[tuple[int, int], FileText | None]] = field(
        default_factory=OrderedDict
    )
    """MEMORY.md as it was when the session began or was compacted last, with the compactions and
    what the owner cleared; by session, and whether it is shown there."""
    _built: dict[AgentId, tuple[tuple[object, ...], Prompt]] = field(default_factory=dict)
    """Of each agent the last prompt, with all that it was made of."""
    _calendar: Calendar = field(default_factory=Calendar)
    _zone: str = ""

    async def build(
        self,
        asked: Asked,
        config: Config,
        model: ModelInfo,
        tools: tuple[ToolSpec, ...],
        hooks: Hooks,
        now_ms: int,
    ) -> Prompt:
        """Return the system prompt of a run.

        Equal files, model and tools give an equal prompt in the same session on the same day; it
        is put together again only when something differs.
        """
        request, agent = asked.request, asked.request.key.agent
        own = config.agents.get(agent)
        name = (own.identity.name if own and own.identity else "") or (own.name if own else "")
        workspace = asked.context.workspace or config.workspace(agent)
        subject = Subject(name, agent, workspace, model)
        defaults = config.agents.defaults
        limits = Limits(defaults.bootstrap_max_chars, defaults.bootstrap_total_max_chars)
        files: tuple[FileText, ...] = ()
        if model.prompt_limit is None:
            shared = "read" in config.tools.guests.allow
            ritual = bool(tools)
            files = await self._files(asked, subject.workspace, hooks, ritual=ritual, shared=shared)
        today = await self._day(asked, config, now_ms, notes=model.prompt_limit is None)
        made_of = subject, tools, files, limits, today, request.extra_system_prompt
        built = self._built.get(agent)
        if built is None or built[0] != made_of:
            shown = fitted(files, limits)
            sections = system_prompt(subject, tools, shown, today, request.extra_system_prompt)
            chars = len(msgspec.json.encode(tools))
            prompt = Prompt(tuple(sections), tuple(shown), joined(sections), chars)
            built = self._built[agent] = made_of, prompt
        return built[1]

    async def _files(
        self, asked: Asked, workspace: Path, hooks: Hooks, *, ritual: bool, shared: bool
    ) -> tuple[FileText, ...]:
        """Return the files that the prompt has. Without tools nobody could do the ritual."""
        request = asked.request
        ritual = ritual and self.ritual.belongs(workspace, request, claim=not asked.looking)
        names = wanted(request, ritual=ritual, shared=shared)
        files = await self.files.read(workspace, names, self.records)
        files = self._frozen(asked, files)
        if hooks.agent_bootstrap.handlers:
            files = await _changed(files, asked.context, hooks)
        return files

    def _frozen(self, asked: Asked, files: tuple[FileText, ...]) -> tuple[FileText, ...]:
        """Return the files with MEMORY.md as it was when the session began, or was compacted.

        What the model notes there stands in the conversation; read again it would cost the cache.
        """
        private = is_private(asked.request)
        now = next((one for one in files if one.name in _MEMORY), None)
        kept = self._memory.get((asked.session_id, private))
        stamp = asked.compactions, self.records.cleared
        if kept is None or kept[0] != stamp:
            if not asked.looking:
                self._memory[asked.session_id, private] = stamp, now
                while len(self._memory) > KEPT:
                    self._memory.popitem(last=False)
            return files
        then = kept[1]
        if then == now:
            return files
        if now is None or then is None:
            return tuple(one for one in files if one is not now)
        return tuple(then if one is now else one for one in files)

    def forget(self) -> None:
        """Read the notes and MEMORY.md anew for every session: what stands there was changed."""
        self._memory.clear()
        self._today.clear()
        self._built.clear()

    async def _day(self, asked: Asked, config: Config, now_ms: int, *, notes: bool) -> Today:
        """Return the day, with the notes as they were when the session began, or the day did.

        What is noted later stands in the conversation; read again it would cost the cache.
        """
        zone = config.agents.defaults.user_timezone
        date = self._calendar.day(now_ms, zone)
        notes = notes and is_private(asked.request)
        kept = self._today.get((asked.session_id, notes))
        name = zone or self._host_zone()
        if kept is not None and kept.date == date and kept.zone == name:
            return kept
        found: tuple[FileText, ...] = ()
        if notes:
            days = [str(date - timedelta(1)), str(date)]
            found = await self.files.daily(
                config.workspace(asked.request.key.agent), days, self.records
            )
        today = Today(date, name, found)
        if not asked.looking:
            self._today[asked.session_id, notes] = today
        while len(self._today) > KEPT:
            self._today.popitem(last=False)
        return today

    def _host_zone(self) -> str:
        if not self._zone:
            self._zone = host_zone()
        return self._zone


async def _changed(
    files: tuple[FileText, ...], context: RunContext, hooks: Hooks
) -> tuple[FileText, ...]:
    """Return the files after the hook, which may change, add and leave out."""
    problems = {one.name: one.problem for one in files if one.problem}
    doubts = {one.name: one.doubt for one in files if one.doubt}
    given = tuple(BootstrapFile(name=one.name, text=one.text) for one in files)
    draft = await hooks.agent_bootstrap.run(BootstrapDraft(context=context, files=given))
    return tuple(
        FileText(
            one.name,
            one.text.strip(),
            "" if one.text else problems.get(one.name, ""),
            doubts.get(one.name, ""),
        )
        for one in draft.files
    )
