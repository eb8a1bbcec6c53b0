"""Builds a run's system prompt from the initial prompt of its session (`workspace.frozen_prompt`).

The first-run ritual is BOOTSTRAP.md. Only the prompt of the first private conversation contains it,
until the ritual is done. That conversation claims it: its key is written to a file that no tool can
write, so that the claim survives resets and restarts. The ritual is done when BOOTSTRAP.md is
missing or empty: a model cannot delete files, so it empties the file, and the gateway deletes it.
"""

import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from datetime import date, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Final, Self

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from skerry.config.root import Config
from skerry.hooks.events import RunContext
from skerry.hooks.hooks import Hooks
from skerry.hooks.payloads import BootstrapDraft, BootstrapFile
from skerry.infra.atomic import write_atomic
from skerry.infra.clock import Calendar, host_zone
from skerry.model.ids import AgentId, SessionId, SessionKey
from skerry.model.run import Purpose, RunRequest
from skerry.model.tool import ToolSpec
from skerry.policy.file_records import FileRecords
from skerry.ports.model import ModelInfo
from skerry.store import Store
from skerry.workspace.frozen_prompt import SessionPrompt, SessionPrompts, withdrawn
from skerry.workspace.prompt_files import (
    BOOTSTRAP,
    MEMORY,
    FileLimits,
    FileText,
    ShownFile,
    WorkspaceFiles,
    fitted,
    prompt_names,
    read_text,
)
from skerry.workspace.prompt_sections import (
    NO_SKILLS,
    ListedSkills,
    PromptSection,
    PromptSubject,
    Today,
    joined,
    system_prompt,
)
from skerry.workspace.skill_catalogue import SkillCatalogue

logger = logging.getLogger(__name__)

BLANK: Final = 16
"""Limit on a file that is read to see if it has only white space, in bytes."""
CLAIM: Final = Path(".skerry") / "first-session"


class Bootstrap:
    """Conversation that has the first-run ritual, by workspace."""

    def __init__(self) -> None:
        self._owners: dict[str, str] = {}

    def belongs(self, workspace: Path, request: RunRequest, *, claim: bool = True) -> bool:
        """Returns whether the run's conversation has the ritual; the first eligible one claims it.

        Without `claim` nothing is claimed, and an eligible conversation gets True. Costs one
        `lstat`; nothing if another conversation has the ritual.
        """
        root = str(workspace)
        owner_key = self._owners.get(root)
        if owner_key is not None and owner_key != str(request.key):
            return False
        if not request.is_private or _size(root) is None:
            return False
        owner = owner_key or _claimed(workspace)
        if not owner:
            if request.purpose is not Purpose.MESSAGE:
                return False
            if not claim:
                return True
            owner = str(request.key)
            write_atomic(workspace / CLAIM, owner.encode())
        self._owners[root] = owner
        return owner == str(request.key)

    def finish(self, workspace: Path, key: SessionKey) -> bool:
        """Deletes BOOTSTRAP.md if the conversation `key` has emptied it; returns whether it was."""
        root = str(workspace)
        if root not in self._owners or self._owners[root] != str(key):
            return False
        if (_size(root) or 0) > BLANK:
            return False
        file = read_text(workspace, BOOTSTRAP)
        if file is not None and (file.problem or file.text.strip()):
            return False
        with suppress(FileNotFoundError):
            (workspace / BOOTSTRAP).unlink()
        with suppress(FileNotFoundError):
            (workspace / CLAIM).unlink()
        del self._owners[root]
        logger.info("the first-run ritual in %s is done", workspace)
        return True


def _size(workspace: str) -> int | None:
    """Returns the size of BOOTSTRAP.md in bytes, or None if it does not exist."""
    try:
        return os.lstat(f"{workspace}/{BOOTSTRAP}").st_size
    except OSError:
        return None


def _claimed(workspace: Path) -> str:
    try:
        return (workspace / CLAIM).read_text(encoding="utf-8").strip()
    except OSError:
        return ""


_READ: Final = "read"
"""The tool by which a model reads the present text of a file."""
_SEARCHED: Final = frozenset({MEMORY, MEMORY.lower()})
"""Files whose changes are not announced: the conversation has the model's notes, and memory_search
finds the rest."""


class PromptTarget(Struct, frozen=True):
    """The run that a prompt is for."""

    request: RunRequest
    session_id: SessionId
    context: RunContext
    """Context for hooks."""
    entry: int = 0
    """Number of the person's message in the transcript; 0 if it is not stored."""
    looking: bool = False
    """True if the prompt is only inspected: then nothing is recorded."""


class Prompt(Struct, frozen=True):
    """A system prompt, with the text that it has of each file of the workspace."""

    sections: tuple[PromptSection, ...]
    files: tuple[ShownFile, ...]
    text: str
    """The joined sections, as they are sent."""
    tool_chars: int
    """Characters of the tools as JSON."""
    note: str = ""
    """Notice before the person's text: the changes since the system prompt was built."""
    changed: tuple[str, ...] = ()
    """Names of the files that changed since; only for an inspected prompt."""


class _CurrentPrompt(Struct, frozen=True):
    """Initial prompt of a session, and the changes since."""

    begin: SessionPrompt
    note: str = ""
    changed: tuple[str, ...] = ()


class Prompts(Struct):
    """Builder of system prompts for all runs; caches the files."""

    files: WorkspaceFiles = field(default_factory=WorkspaceFiles)
    records: FileRecords = field(default_factory=FileRecords)
    ritual: Bootstrap = field(default_factory=Bootstrap)
    begins: SessionPrompts = field(default_factory=SessionPrompts)
    skills: SkillCatalogue = field(default_factory=SkillCatalogue)
    _built: dict[AgentId, tuple[tuple[object, ...], Prompt]] = field(default_factory=dict)
    """Last prompt of each agent, with all values that it was built from."""
    _calendar: Calendar = field(default_factory=Calendar)
    _zone: str = ""

    @classmethod
    def over(cls, store: Store, records: FileRecords, skills: SkillCatalogue | None = None) -> Self:
        """Returns a builder whose initial prompts are kept in the store."""
        return cls(
            records=records,
            begins=SessionPrompts(store),
            skills=skills or SkillCatalogue(records=records),
        )

    async def build(
        self,
        target: PromptTarget,
        config: Config,
        model: ModelInfo,
        tools: tuple[ToolSpec, ...],
        hooks: Hooks,
        now_ms: int,
    ) -> Prompt:
        """Returns the system prompt of a run.

        Equal configuration, model and tools give an equal prompt in the same session; it is built
        again only when one of them differs.
        """
        request, agent = target.request, target.request.key.agent
        entry = config.agents.by_id.get(agent)
        identity_name = entry.identity.name if entry and entry.identity else ""
        name = identity_name or (entry.name if entry else "")
        workspace = target.context.workspace or config.workspace(agent)
        subject = PromptSubject(name, agent, workspace, model)
        defaults = config.agents.defaults
        limits = FileLimits(defaults.bootstrap_max_chars, defaults.bootstrap_total_max_chars)
        zone = defaults.user_timezone
        today = Today(self._calendar.day(now_ms, zone), zone or self._host_zone())
        news = _CurrentPrompt(SessionPrompt((), today))
        if model.prompt_limit is None:
            shared = "read" in config.tools.guests.allow
            news = await self._news(target, workspace, tools, hooks, today, shared=shared)
        begin, note, changed = news.begin, news.note, news.changed
        skills = await self._skills(request, config, workspace, tools)
        made_of = (
            *(subject, tools, begin.files, limits, begin.today),
            *(request.extra_system_prompt, skills),
        )
        built = self._built.get(agent)
        if built is None or built[0] != made_of:
            shown_files = fitted(begin.files, limits)
            sections = system_prompt(
                subject, tools, shown_files, begin.today, request.extra_system_prompt, skills
            )
            chars = len(msgspec.json.encode(tools))
            prompt = Prompt(tuple(sections), tuple(shown_files), joined(sections), chars)
            built = self._built[agent] = made_of, prompt
        return replace(built[1], note=note, changed=changed) if note or changed else built[1]

    async def _skills(
        self,
        request: RunRequest,
        config: Config,
        workspace: Path,
        tools: tuple[ToolSpec, ...],
    ) -> ListedSkills:
        """Returns the skills offered to a run: none if it has no tool to read them."""
        if not any(tool.name == _READ for tool in tools):
            return NO_SKILLS
        skills = await self.skills.current(config, request.key.agent, workspace)
        if not skills.skills:
            return NO_SKILLS
        limits = config.skills.limits
        return ListedSkills(
            skills.offered(request.skills),
            limits.max_skills_in_prompt,
            limits.max_skills_prompt_chars,
        )

    async def _news(
        self,
        target: PromptTarget,
        workspace: Path,
        tools: tuple[ToolSpec, ...],
        hooks: Hooks,
        today: Today,
        *,
        shared: bool,
    ) -> _CurrentPrompt:
        """Returns the initial prompt of the session, and the changes since."""
        request = target.request
        # Without tools the model could not do the ritual.
        ritual = bool(tools) and self.ritual.belongs(workspace, request, claim=not target.looking)
        names = prompt_names(request, ritual=ritual, shared=shared)
        files = raw = await self.files.read(workspace, names, self.records)
        if hooks.agent_bootstrap.handlers:
            files = await _changed(raw, target.context, hooks)
        audience = _audience(workspace, today.zone, names, private=request.is_private)
        begin = await self._begin(target, audience, workspace, files, today)
        readable = [file for file in files if file in raw]  # no tool can read the text of a hook
        if target.looking:
            return _CurrentPrompt(begin, changed=begin.outdated(readable))
        changed: dict[str, str] = {}
        if any(tool.name == _READ for tool in tools):
            changed = begin.changed([file for file in readable if file.name not in _SEARCHED])
        return _CurrentPrompt(
            begin, self._note(target, audience, workspace, begin, changed, today.date)
        )

    async def _begin(
        self,
        target: PromptTarget,
        audience: str,
        workspace: Path,
        files: tuple[FileText, ...],
        today: Today,
    ) -> SessionPrompt:
        """Returns the initial prompt of the session; a new one if that is no longer valid."""
        begin = await self.begins.find(target.request.key, target.session_id, audience)
        if begin is not None and not withdrawn(begin.files, files):
            if not begin.today.notes:
                return begin
            days = _days(begin.today.date)
            marks = self.files.marks(workspace, days), self.records.cleared
            if marks == begin.marks:
                return begin
            now = await self.files.daily(workspace, days, self.records)
            if not withdrawn(begin.today.notes, now):
                begin.marks = marks
                return begin
        if target.request.is_private:
            notes = await self.files.daily(workspace, _days(today.date), self.records)
            today = replace(today, notes=notes)
        new = SessionPrompt(files, today, notes=begin.notes if begin else {})
        if not target.looking:
            self.begins.keep(target.request.key, target.session_id, audience, new)
        return new

    def _note(
        self,
        target: PromptTarget,
        audience: str,
        workspace: Path,
        begin: SessionPrompt,
        changed: dict[str, str],
        day: date,
    ) -> str:
        """Returns the notice before the person's text; each change is announced once."""
        if target.entry and target.entry in begin.notes:
            return begin.notes[target.entry]
        is_new_day = begin.new_day(day)
        if not changed and not is_new_day:
            return ""
        begin.mark_announced(changed, day)
        key = target.request.key
        self.begins.keep(key, target.session_id, audience, begin)
        names = [name for name in changed if self._writer(workspace, name) != str(key)]
        note = change_notice(names, day if is_new_day else None)
        if note and target.entry:
            self.begins.note(target.session_id, target.entry, note)
        return note

    def _writer(self, workspace: Path, name: str) -> str:
        """Returns the key of the conversation that last wrote a file; it has the text already."""
        record = self.records.of(str((workspace / name).resolve()))
        return record.writer if record else ""

    def forget(self, session_id: SessionId | None = None) -> None:
        """Drops the cached initial prompt of a session, or of all sessions."""
        self.begins.forget(session_id)
        self._built.clear()

    def _host_zone(self) -> str:
        if not self._zone:
            self._zone = host_zone()
        return self._zone


def change_notice(files: Sequence[str], day: date | None) -> str:
    """Returns the notice about changes since the system prompt was built (pure)."""
    parts = [f"It is {day:%A}, {day} now."] if day else []
    if files:
        listed = " and ".join(files)
        parts.append(
            f"{listed} changed after this conversation began; the system prompt shows what stood"
            " there before. Read it before you answer: what it says now holds."
        )
    return f"[From the gateway: {' '.join(parts)}]" if parts else ""


def _days(day: date) -> list[str]:
    return [str(day - timedelta(1)), str(day)]


def _audience(workspace: Path, zone: str, names: Sequence[str], *, private: bool) -> str:
    """Returns a key of the audience: equal if the same text may be shown."""
    text = "\n".join((str(workspace), zone, str(private), *names))
    return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


async def _changed(
    files: tuple[FileText, ...], context: RunContext, hooks: Hooks
) -> tuple[FileText, ...]:
    """Returns the files after the hook, which may change, add and remove files."""
    problems = {file.name: file.problem for file in files if file.problem}
    doubts = {file.name: file.doubt for file in files if file.doubt}
    originals = tuple(BootstrapFile(name=file.name, text=file.text) for file in files)
    draft = await hooks.agent_bootstrap.run(BootstrapDraft(context=context, files=originals))
    return tuple(
        FileText(
            file.name,
            file.text.strip(),
            "" if file.text else problems.get(file.name, ""),
            doubts.get(file.name, ""),
        )
        for file in draft.files
    )
