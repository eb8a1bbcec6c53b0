"""The system prompt: its stability, its size and its content."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import date
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from msgspec.structs import replace

from skerry.config.agents import AgentDefaults, AgentsConfig
from skerry.features.anthropic_messages import request as anthropic_request
from skerry.features.files.read_tool import Read
from skerry.features.google_generative_ai import request as google_request
from skerry.features.openai_completions import request as compat_request
from skerry.features.openai_responses import request as responses_request
from skerry.hooks.hooks import Hooks
from skerry.hooks.payloads import BootstrapChange, BootstrapDraft, BootstrapFile
from skerry.hooks.runner import Handler
from skerry.model.ids import AccountId, AgentId, ChannelId, RunId, SessionKey
from skerry.model.inbound import Peer, PeerKind, ReplyTo
from skerry.model.message import CHARS_PER_TOKEN, ToolCall
from skerry.model.origin import Origin
from skerry.model.run import Purpose, RunRequest
from skerry.model.skill import Skill
from skerry.ports.model import ModelInfo, ModelRequest
from skerry.testing.clock import FakeClock
from skerry.testing.model import ScriptedModel, Step, echo
from skerry.workspace.prompt_files import BOOTSTRAP, FileText, ShownFile
from skerry.workspace.prompt_sections import (
    NO_SKILLS,
    ListedSkills,
    PromptSubject,
    Today,
    joined,
    system_prompt,
)
from skerry.workspace.workspace_init import seed
from tests.support.core import Core, open_core, request

MAIN = AgentId("main")
MODEL = ModelInfo("p", "m", "M")
FIRST_REQUEST_BYTES = 12_000
"""The budget of decisions 5."""
TODAY = Today(date(2026, 11, 22), "Europe/Lisbon")
GROUP = SessionKey.parse("agent:main:memory:group:1")


def prompt(
    name: str = "",
    model: ModelInfo = MODEL,
    files: Sequence[ShownFile] = (),
    today: Today = TODAY,
    override: str = "",
    skills: ListedSkills = NO_SKILLS,
) -> str:
    tools = (Read.spec,) if model.supports_tools else ()
    subject = PromptSubject(name, MAIN, Path("/w"), model)
    return joined(system_prompt(subject, tools, files, today, override, skills))


@asynccontextmanager
async def seeded(
    home: Path, model: ScriptedModel | None = None, **options: Any
) -> AsyncGenerator[tuple[Core, ScriptedModel]]:
    model = model or ScriptedModel(echo)
    seed(home / "workspace")
    async with open_core(home, model, **options) as core:
        yield core, model


def systems(model: ScriptedModel) -> list[str]:
    return [call.request.system for call in model.requests]


def test_it_says_who_answers_and_with_what() -> None:
    text = prompt("Pebble")
    assert text.startswith("You are Pebble, ")
    assert "- read: " in text
    assert "/w" in text
    assert "model=p/m" in text


def test_an_agent_without_a_name_is_called_by_what_it_is() -> None:
    assert prompt().startswith("You are a personal assistant ")


@pytest.mark.requirement("prompt-assembly-order")
def test_the_base_is_first_then_the_skills_the_files_and_the_additions_of_the_run() -> None:
    notes = Today(TODAY.date, TODAY.zone, (FileText("memory/2026-11-22.md", "Tea was bought."),))
    files = [ShownFile("SOUL.md", "Be kind.", 8)]
    skills = ListedSkills([Skill("frogs", "Counts frogs.", Path("/w/skills/frogs"))])
    text = prompt(files=files, today=notes, override="Be brief.", skills=skills)
    positions = [
        text.index(part)
        for part in (
            "You are a",
            "## Tools",
            "<available_skills>\n<skill><name>frogs</name>",
            "### SOUL.md\nBe kind.",
            "### memory/2026-11-22.md\nTea was bought.",
            "## Date\nSunday, 2026-11-22 (Europe/Lisbon)",
            "## Runtime",
            "Be brief.",
        )
    ]
    assert positions == sorted(positions)
    assert text.endswith("Be brief.")


def test_a_model_with_little_room_gets_a_prompt_for_a_small_head() -> None:
    small = replace(MODEL, supports_tools=False, prompt_limit=600)
    text = prompt(model=small, files=[ShownFile("SOUL.md", "Be kind.", 8)])
    assert "##" not in text
    assert "/w" not in text
    assert len(text) / CHARS_PER_TOKEN < 600 / 2  # its limit, halved because the count is rough


async def test_the_first_request_is_small(tmp_path: Path) -> None:
    async with seeded(tmp_path) as (core, model):
        await core.ask("hi")
    body = compat_request.request_body(model.requests[0].request, "max_tokens")
    assert len(body) < FIRST_REQUEST_BYTES
    assert "### BOOTSTRAP.md" in model.requests[0].request.system


@pytest.mark.requirement("identity-files-injected")
async def test_a_change_of_a_file_is_told_and_counts_from_the_next_session_on(
    tmp_path: Path,
) -> None:
    async with seeded(tmp_path) as (core, model):
        await core.ask("one")
        (core.workspace / "SOUL.md").write_text("Speak like a pirate.", encoding="utf-8")
        await core.ask("two")
        await core.ask("elsewhere", key=SessionKey.parse("agent:main:other"))
    first, second, third = systems(model)
    assert first == second
    assert "SOUL.md changed after this conversation began" in str(model.requests[1].messages[-1])
    assert "### SOUL.md\nSpeak like a pirate." in third


@pytest.mark.requirement("identity-file-identity-md")
@pytest.mark.requirement("identity-file-soul-md")
@pytest.mark.requirement("identity-file-user-md")
async def test_a_sub_agent_does_not_inherit_who_its_parent_is(tmp_path: Path) -> None:
    async with seeded(tmp_path) as (core, model):
        await core.ask("hi")
        await core.ask("there", key=SessionKey.parse("agent:main:subagent:1"))
    parent, child = systems(model)
    for name in ("IDENTITY.md", "SOUL.md", "USER.md"):
        assert f"### {name}" in parent
        assert f"### {name}" not in child


@pytest.mark.requirement("identity-file-agents-md")
@pytest.mark.requirement("identity-file-tools-md")
@pytest.mark.parametrize("key", ["main", "agent:main:memory:group:1", "agent:main:subagent:1"])
async def test_agents_md_and_tools_md_are_in_every_conversation(tmp_path: Path, key: str) -> None:
    async with seeded(tmp_path) as (core, model):
        await core.ask("hi", key=SessionKey.parse(key))
    assert "### AGENTS.md" in systems(model)[0]
    assert "### TOOLS.md" in systems(model)[0]


@pytest.mark.requirement("identity-file-memory-md")
@pytest.mark.requirement("memory-files")
async def test_what_is_private_is_not_told_to_a_group(tmp_path: Path) -> None:
    clock = FakeClock()
    async with seeded(tmp_path, clock=clock) as (core, model):
        (core.workspace / "MEMORY.md").write_text("The safe is behind the clock.", encoding="utf-8")
        log = core.workspace / "memory" / "2023-11-14.md"
        log.write_text("The code is 1234.", encoding="utf-8")
        await core.ask("hi")
        await core.ask("hello", key=GROUP)
    private, group = systems(model)
    assert "behind the clock" in private
    assert "1234" in private
    assert "behind the clock" not in group
    assert "1234" not in group


async def test_the_notes_of_the_owner_are_not_told_to_a_stranger_in_the_same_session(
    tmp_path: Path,
) -> None:
    async with seeded(tmp_path, clock=FakeClock()) as (core, model):
        log = core.workspace / "memory" / "2023-11-14.md"
        log.write_text("The code is 1234.", encoding="utf-8")
        peer = Peer(PeerKind.DIRECT, "mallory")
        address = ReplyTo(ChannelId("memory"), AccountId("default"), peer, "m")
        stranger = replace(request("two"), origin=Origin.STRANGER, reply_to=address)
        await core.ask("one")
        await core.dispatch.submit(stranger)
        with anyio.fail_after(60):
            await core.dispatch.wait(stranger.run_id, None)
        await core.ask("three")
    assert ["1234" in prompt for prompt in systems(model)] == [True, False, True]


@pytest.mark.requirement("prompt-daily-logs")
async def test_a_session_begins_with_the_notes_of_today_and_yesterday(tmp_path: Path) -> None:
    zone = AgentsConfig(defaults=AgentDefaults(user_timezone="Pacific/Kiritimati"))
    async with seeded(tmp_path, clock=FakeClock(), agents=zone) as (core, model):
        for day in (13, 14, 15):  # 2023-11-14 22:13 UTC is the 15th there
            log = core.workspace / "memory" / f"2023-11-{day}.md"
            log.write_text(f"note {day}", encoding="utf-8")
        await core.ask("one")
        (core.workspace / "memory" / "2023-11-15.md").write_text("a later note", encoding="utf-8")
        await core.ask("two")
        await core.ask("three", key=SessionKey.parse("agent:main:other"))
    first, second, third = systems(model)
    notes = first.index("### memory/2023-11-14.md\nnote 14")
    assert notes < first.index("### memory/2023-11-15.md\nnote 15") < first.index("## Date")
    assert "note 13" not in first
    assert first == second  # a later change is announced in the conversation
    assert "a later note" in third
    assert "Wednesday, 2023-11-15 (Pacific/Kiritimati)" in first


async def test_a_session_of_another_day_has_that_day(tmp_path: Path) -> None:
    clock = FakeClock()
    async with seeded(tmp_path, clock=clock) as (core, model):
        await core.ask("one")
        clock.advance(24 * 3_600_000)
        await core.ask("two")
        clock.advance(60_000)
        await core.ask("three")
    first, _, second, third = systems(model)  # the other one is the flush of the day that ended
    assert first != second == third
    assert first[: first.index("## Date")] == second[: second.index("## Date")]


@pytest.mark.requirement("agent-execution-order")
@pytest.mark.requirement("identity-files-injected")
async def test_files_have_limits_that_the_configuration_sets(tmp_path: Path) -> None:
    limits = AgentDefaults(bootstrap_max_chars=300, bootstrap_total_max_chars=700)
    async with seeded(tmp_path, agents=AgentsConfig(defaults=limits)) as (core, model):
        await core.ask("hi")
    text = systems(model)[0]
    assert "[… SOUL.md: 210 + 60 of " in text
    assert "[Left out, there was no room: " in text


@pytest.mark.requirement("hooks-internal-agent-bootstrap")
async def test_a_hook_may_change_the_list_of_files(tmp_path: Path) -> None:
    drafts: list[BootstrapDraft] = []

    def change(draft: BootstrapDraft) -> BootstrapChange:
        drafts.append(draft)
        files = [file for file in draft.files if file.name != "SOUL.md"]
        return BootstrapChange(files=(*files, BootstrapFile(name="HOUSE.md", text="No shoes.")))

    hooks = Hooks()
    hooks.agent_bootstrap.add(Handler("test", change))
    async with seeded(tmp_path, hooks=hooks) as (core, model):
        await core.ask("hi")
    text = systems(model)[0]
    assert "### HOUSE.md\nNo shoes." in text
    assert "### SOUL.md" not in text
    assert drafts[0].context.session_key == "agent:main:main"


@pytest.mark.requirement("identity-file-bootstrap-md")
async def test_the_first_conversation_does_the_ritual_until_the_file_is_empty(
    tmp_path: Path,
) -> None:
    calls = [ToolCall("1", "write", {"path": BOOTSTRAP, "content": ""})]
    script: list[Sequence[Step]] = [["hello"], ["there"], ["again"], calls, ["done"], ["bye"]]
    async with seeded(tmp_path, ScriptedModel(script)) as (core, model):
        await core.ask("one")
        await core.ask("two", key=SessionKey.parse("agent:main:other"))
        await core.ask("three")
        assert (core.workspace / BOOTSTRAP).exists()
        await core.ask("four")
        assert not (core.workspace / BOOTSTRAP).exists()
        await core.ask("five")
        assert seed(core.workspace) == []
    assert [BOOTSTRAP in text for text in systems(model)] == [True, False, True, True, True, False]


async def test_the_conversation_keeps_the_ritual_over_a_restart(tmp_path: Path) -> None:
    async with seeded(tmp_path) as (core, _):
        await core.ask("one")
    async with seeded(tmp_path) as (core, model):
        await core.ask("two", key=SessionKey.parse("agent:main:other"))
        await core.ask("three")
    assert [BOOTSTRAP in text for text in systems(model)] == [False, True]


async def test_nobody_but_a_person_begins_the_ritual(tmp_path: Path) -> None:
    async with seeded(tmp_path) as (core, model):
        await core.ask("one", key=GROUP)
        beat = RunRequest(RunId("beat"), SessionKey.main(), "beat", purpose=Purpose.HEARTBEAT)
        await core.dispatch.submit(beat)
        await core.dispatch.wait(RunId("beat"), 60)
        await core.ask("two")
    assert [BOOTSTRAP in text for text in systems(model)] == [False, False, True]


def parts(body: bytes) -> tuple[Any, list[bytes]]:
    """Returns the part of the body before the conversation, and each message, as sent."""
    tree = msgspec.json.decode(body)
    (key,) = {"messages", "input", "contents"} & tree.keys()
    messages = tree.pop(key)
    encoded = [msgspec.json.encode(message).replace(MARK, b"") for message in messages]
    return tree, encoded


MARK = b',"cache_control":{"type":"ephemeral"}'
BODIES: dict[str, Callable[[ModelRequest], bytes]] = {
    "openai-completions": lambda request: compat_request.request_body(request, "max_tokens"),
    "openai-responses": responses_request.request_body,
    "anthropic-messages": lambda request: anthropic_request.request_body(request, {}),
    "google-generative-ai": google_request.request_body,
}


@pytest.mark.parametrize("api", BODIES)
async def test_each_request_begins_with_the_whole_one_before_it(tmp_path: Path, api: str) -> None:
    sent: list[bytes] = []

    def reply(request: ModelRequest) -> Sequence[Step]:
        sent.append(BODIES[api](request))
        return echo(request)

    clock = FakeClock(1_700_000_000_000 - 12 * 3_600_000)
    async with seeded(tmp_path, ScriptedModel(reply), clock=clock) as (core, _):
        for index in range(4):
            clock.advance(1_234_567)
            await core.ask(f"message {index}")
            await core.ask(f'call read {{"path": "SOUL.md", "lines": {index + 1}}}')
    assert len(sent) == 12
    (before, earlier), *rest = map(parts, sent)
    for head, messages in rest:
        assert head == before
        assert messages[: len(earlier)] == earlier
        earlier = messages


async def test_the_cache_marks_are_after_the_unchanged_parts(tmp_path: Path) -> None:
    async with seeded(tmp_path) as (core, model):
        await core.ask("one")
    body = msgspec.json.decode(anthropic_request.request_body(model.requests[0].request, {}))
    mark = {"type": "ephemeral"}
    assert body["system"][-1]["cache_control"] == mark
    assert body["tools"][-1]["cache_control"] == mark
    assert body["messages"][-1]["content"][-1]["cache_control"] == mark
    assert msgspec.json.encode(body).count(b"cache_control") == 3


def test_a_tool_that_is_offered_brings_its_advice_and_section() -> None:
    advised = replace(Read.spec, name="look", advice="## Looking Up\nLook before you answer.")
    subject = PromptSubject("", MAIN, Path("/w"), MODEL)
    with_advice = system_prompt(subject, (Read.spec, advised), (), TODAY, "")
    prompt = system_prompt(subject, (Read.spec,), (), TODAY, "")
    names = [section.name for section in with_advice]
    assert names[: names.index("looking up") + 1] == ["base", "tools", "looking up"]
    assert "Look before you answer." in joined(with_advice)
    assert {section.name for section in prompt} == set(names) - {"looking up"}
