"""Folders of hooks: found in their order, loaded only when the owner wants it, harmless."""

import hashlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from skerry.config.hooks import HooksConfig
from skerry.config.root import Config
from skerry.hooks.events import BeforeReset, CommandGiven, GatewayStart
from skerry.hooks.hooks import Hooks
from skerry.hooks.payloads import BootstrapDraft, BootstrapFile
from skerry.model.ids import AgentId, SessionId
from skerry.model.message import AssistantMessage, TextBlock, Usage, UserMessage
from skerry.model.origin import Origin
from skerry.plugins.bundled import slug
from skerry.plugins.folders import HookReport, HookStatus, find_hooks, load_hooks
from skerry.policy.file_records import FileRecord, FileRecords
from skerry.testing.clock import FakeClock
from tests.test_hooks_reference import CONTEXT

MAIN = AgentId("main")
NOTE = """
def handle(event):
    with open(event.state_dir / "seen", "a") as file:
        file.write(f"{event.type}:{event.action} {event.timestamp}\\n")
"""
NEW = CommandGiven(name="new", agent_id=MAIN, session_key="agent:main:main")


def put(folder: Path, events: str = '"command:new"', code: str = NOTE, more: str = "") -> str:
    """Writes a hook and returns the hash of its handler."""
    folder.mkdir(parents=True)
    meta = f'{{"openclaw": {{"events": [{events}]{more}}}}}'
    (folder / "HOOK.md").write_text(f"---\ndescription: test\nmetadata: {meta}\n---\n")
    (folder / "handler.py").write_text(code)
    return hashlib.sha256(code.encode()).hexdigest()


def config(home: Path, entries: Mapping[str, Any], **internal: Any) -> Config:
    tree = {"internal": {"entries": dict(entries), **internal}}
    hooks = HooksConfig.model_validate(tree)
    return Config(state_dir=home, path=home / "skerry.json", hooks=hooks)


@asynccontextmanager
async def loaded(config: Config) -> AsyncGenerator[tuple[Hooks, dict[str, HookReport]]]:
    async with Hooks(FakeClock()) as hooks:
        reports = await load_hooks(config, hooks, {}, FakeClock(), FileRecords())
        yield hooks, {report.name: report for report in reports}


def by_name(config: Config) -> dict[str, HookReport]:
    return {hook.report.name: hook.report for hook in find_hooks(config, {}, FileRecords())}


def test_our_own_are_there_and_only_the_checklist_is_on(tmp_path: Path) -> None:
    found = by_name(config(tmp_path, {}))
    assert {name: report.status for name, report in found.items()} == {
        "boot-md": HookStatus.ENABLED,
        "command-logger": HookStatus.DISABLED,
        "session-memory": HookStatus.DISABLED,
    }
    off = by_name(config(tmp_path, {"command-logger": {}}, enabled=False))
    assert {report.status for report in off.values()} == {HookStatus.DISABLED}


def test_the_later_place_counts(tmp_path: Path) -> None:
    entries = {"greet": {"enabled": True}}
    extra = tmp_path / "more"
    put(extra / "greet")
    where = config(tmp_path, entries, load={"extraDirs": ["more"]})
    assert by_name(where)["greet"].place == "extra"
    put(tmp_path / "hooks" / "greet")
    assert by_name(where)["greet"].place == "managed"
    pin = put(tmp_path / "workspace" / "hooks" / "greet")
    assert by_name(where)["greet"].place == "workspace"
    assert by_name(where)["greet"].status is HookStatus.FAILED
    assert pin in by_name(where)["greet"].remedy
    assert "hooks.internal.entries.greet.sha256" in by_name(where)["greet"].remedy


async def test_one_that_is_not_named_does_not_run(tmp_path: Path) -> None:
    put(tmp_path / "hooks" / "greet", code="raise SystemExit")
    async with loaded(config(tmp_path, {})) as (hooks, reports):
        assert reports["greet"].status is HookStatus.DISABLED
        assert not hooks.command.handlers


@pytest.mark.requirement("hooks-internal-commands")
@pytest.mark.parametrize("name", ["new", "reset", "stop"])
async def test_a_handler_receives_the_commands_that_it_asked_for(tmp_path: Path, name: str) -> None:
    put(tmp_path / "hooks" / "greet", events=f'"command:{name}"')
    async with loaded(config(tmp_path, {"greet": {}})) as (hooks, reports):
        assert reports["greet"].status is HookStatus.ENABLED
        for given in ("new", "reset", "stop", "help"):
            await hooks.command.run(msgspec.structs.replace(NEW, name=given))
    assert (tmp_path / "seen").read_text() == f"command:{name} 1700000000000\n"


async def test_a_handler_may_be_async_and_may_change_the_files_of_a_prompt(tmp_path: Path) -> None:
    code = """
from skerry.sdk.hooks import BootstrapChange, BootstrapFile, HookEvent


async def handle(event: HookEvent) -> BootstrapChange:
    place = str(event.workspace)
    return BootstrapChange(files=(*event.payload.files, BootstrapFile(name="X.md", text=place)))
"""
    put(tmp_path / "hooks" / "add", events='"agent:bootstrap"', code=code)
    async with loaded(config(tmp_path, {"add": {}})) as (hooks, _):
        files = (BootstrapFile(name="SOUL.md", text="soul"),)
        draft = await hooks.agent_bootstrap.run(BootstrapDraft(context=CONTEXT, files=files))
    assert [file.name for file in draft.files] == ["SOUL.md", "X.md"]
    assert draft.files[1].text == str(tmp_path / "workspace")


async def test_one_that_fails_harms_nobody(tmp_path: Path) -> None:
    put(tmp_path / "hooks" / "a-broken", code="def other(event): ...")
    put(tmp_path / "hooks" / "b-raising", code="1 / 0")
    put(tmp_path / "hooks" / "c-late", code='def handle(event): raise ValueError("late")')
    put(tmp_path / "hooks" / "d-fine")
    names = ("a-broken", "b-raising", "c-late", "d-fine")
    async with loaded(config(tmp_path, {name: {} for name in names})) as (hooks, reports):
        assert "no function `handle(event)`" in reports["a-broken"].reason
        assert "ZeroDivisionError" in reports["b-raising"].reason
        await hooks.command.run(NEW)
        counted = {report.plugin: report.failures for report in hooks.report()}
    assert counted == {"hook c-late": 1, "hook d-fine": 0}
    assert (tmp_path / "seen").exists()


async def test_in_a_workspace_only_what_was_pinned_runs(tmp_path: Path) -> None:
    folder = tmp_path / "workspace" / "hooks" / "greet"
    pin = put(folder)
    async with loaded(config(tmp_path, {"greet": {"sha256": pin}})) as (hooks, _):
        assert hooks.command.handlers
    (folder / "handler.py").write_text("def handle(event): ...")
    async with loaded(config(tmp_path, {"greet": {"sha256": pin}})) as (hooks, reports):
        assert not hooks.command.handlers
        assert "it has changed" in reports["greet"].reason


async def test_what_others_could_write_or_lies_elsewhere_is_refused(tmp_path: Path) -> None:
    put(tmp_path / "hooks" / "open")
    (tmp_path / "hooks" / "open" / "handler.py").chmod(0o666)
    put(tmp_path / "elsewhere")
    put(tmp_path / "hooks" / "linked")
    (tmp_path / "hooks" / "linked" / "handler.py").unlink()
    (tmp_path / "hooks" / "linked" / "handler.py").symlink_to(tmp_path / "elsewhere/handler.py")
    put(tmp_path / "hooks" / "command-logger")
    entries: dict[str, Any] = {"open": {}, "linked": {}, "command-logger": {}}
    async with loaded(config(tmp_path, entries)) as (hooks, reports):
        assert not hooks.command.handlers
    assert "Other users may write" in reports["open"].reason
    assert "leads out of its folder" in reports["linked"].reason
    assert "a bundled hook has it" in reports["command-logger"].reason


def test_one_that_lacks_something_says_what(tmp_path: Path) -> None:
    more = ', "requires": {"env": ["UNSET_HERE"]}'
    put(tmp_path / "hooks" / "greet", more=more)
    greet = by_name(config(tmp_path, {"greet": {}}))["greet"]
    assert (greet.status, greet.reason) == (
        HookStatus.MISSING,
        "It needs the variable UNSET_HERE.",
    )


async def test_commands_are_logged_without_what_follows_them(tmp_path: Path) -> None:
    async with loaded(config(tmp_path, {"command-logger": {}})) as (hooks, _):
        await hooks.command.run(msgspec.structs.replace(NEW, arguments="secret"))
        await hooks.command.run(msgspec.structs.replace(NEW, name="help"))
    path = tmp_path / "logs" / "commands.log"
    first, second = path.read_text().splitlines()
    assert msgspec.json.decode(first)["command"] == "new"
    assert msgspec.json.decode(second)["command"] == "help"
    assert "secret" not in first
    assert path.stat().st_mode & 0o777 == 0o600


def spoken(text: str, by: Origin) -> UserMessage:
    return UserMessage((TextBlock(text),), 0, by)


def reset(key: str, by: Origin = Origin.OWNER) -> BeforeReset:
    messages = [spoken("Where is the blue boat?", by)]
    answer = AssistantMessage((TextBlock("In the shed."),), "", "", "", Usage(), "stop", 0)
    return BeforeReset(
        agent_id=MAIN,
        session_key=key,
        session_id=SessionId("s"),
        messages=(*[spoken("old", by)] * 20, *messages, answer),
        reason="new",
    )


async def test_the_end_of_a_private_conversation_is_kept_in_the_workspace(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    async with loaded(config(tmp_path, {"session-memory": {}})) as (hooks, _):
        await hooks.before_reset.run(reset("agent:main:main"))
        await hooks.before_reset.run(reset("agent:main:memory:group:1"))
        await hooks.before_reset.run(reset("agent:main:main"))
    (path,) = (tmp_path / "workspace" / "memory").iterdir()
    assert path.name.endswith("-old.md")
    text = path.read_text()
    assert text.count("**You:** Where is the blue boat?\n\n**Assistant:** In the shed.") == 2
    assert text.count("**You:** old") == 26  # the last fifteen, twice
    assert "group" not in text


def test_a_name_is_made_of_the_first_words() -> None:
    assert slug("Où est le bateau bleu, s'il te plaît?") == "où-est-le-bateau-bleu"
    assert slug("../../etc/passwd") == "etc-passwd"
    assert slug("!?") == "conversation"
    assert len(slug("x" * 100)) == 40


async def test_a_start_is_told_to_who_asked(tmp_path: Path) -> None:
    put(tmp_path / "hooks" / "greet", events='"gateway:startup"')
    async with loaded(config(tmp_path, {"greet": {}})) as (hooks, _):
        with anyio.fail_after(60):
            await hooks.gateway_start.run(GatewayStart(port=1))
    assert (tmp_path / "seen").read_text().startswith("gateway:startup ")


async def test_what_a_conversation_with_others_leaves_is_unverified(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    async with loaded(config(tmp_path, {"session-memory": {}})) as (hooks, _):
        await hooks.before_reset.run(reset("agent:main:main", Origin.STRANGER))
    (folder,) = (tmp_path / "workspace" / "memory").iterdir()
    assert folder.name == "unverified"


@pytest.mark.parametrize("name", ["HOOK.md", "handler.py"])
def test_a_copy_of_what_a_tainted_run_wrote_is_no_hook_until_its_owner_pins_or_rewrites_it(
    tmp_path: Path, name: str
) -> None:
    digest = put(tmp_path / "hooks" / "greet")
    data = (tmp_path / "hooks" / "greet" / name).read_bytes()
    sha = hashlib.sha256(data).digest()
    records = FileRecords([FileRecord("/x", sha, len(data), "main", frozenset({Origin.WEB}))])

    def status(entry: dict[str, Any]) -> HookStatus:
        found_hooks = find_hooks(config(tmp_path, {"greet": entry}), {}, records)
        return next(
            found_hook.report.status
            for found_hook in found_hooks
            if found_hook.report.name == "greet"
        )

    assert status({"enabled": True}) is HookStatus.FAILED
    assert status({"enabled": False}) is HookStatus.DISABLED
    pinned = status({"enabled": True, "sha256": digest})
    assert pinned is (HookStatus.ENABLED if name == "handler.py" else HookStatus.FAILED)
    with (tmp_path / "hooks" / "greet" / name).open("a") as file:
        file.write("\n")
    assert status({"enabled": True}) is HookStatus.ENABLED


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_head_that_others_may_write_or_that_is_a_copy_of_theirs_is_refused(
    tmp_path: Path, end: str
) -> None:
    put(tmp_path / "hooks" / "greet")
    head = tmp_path / "hooks" / "greet" / "HOOK.md"
    data = head.read_bytes().replace(b"\n", end.encode())
    head.write_bytes(data)
    where = config(tmp_path, {"greet": {}})
    assert by_name(where)["greet"].status is HookStatus.ENABLED, "the control"
    sha = hashlib.sha256(data).digest()
    copy = FileRecord("/x", sha, len(data), "main", frozenset({Origin.WEB}))
    found = {hook.report.name: hook.report for hook in find_hooks(where, {}, FileRecords([copy]))}
    assert found["greet"].status is HookStatus.FAILED
    (doubted,) = (file for file in found["greet"].files if file.doubt)
    assert (doubted.name, doubted.writer, doubted.origins) == ("HOOK.md", "main", ("web",))
    head.chmod(0o666)
    assert "Other users may write" in by_name(where)["greet"].reason


def test_a_head_without_an_end_is_refused(tmp_path: Path) -> None:
    put(tmp_path / "hooks" / "greet")
    with (tmp_path / "hooks" / "greet" / "HOOK.md").open("a") as file:
        file.write("x" * 70_000)
    report = by_name(config(tmp_path, {"greet": {}})).get("greet")
    assert report is not None
    assert "more than 65536 bytes" in report.reason
