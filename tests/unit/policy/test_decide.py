"""Holds the matrix of effects against every role, scope, right, origin and taint."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from skerry.app.command_dependencies import CommandDependencies
from skerry.app.commands import every_command
from skerry.commands.table import CommandTable
from skerry.infra.rooted_fs import Opened
from skerry.model.origin import Origin
from skerry.model.rights import Rights
from skerry.policy import access
from skerry.policy.access import (
    ADMIN,
    COMMANDS,
    METHODS,
    OPERATOR_SCOPES,
    READ,
    WRITE,
    Need,
    Role,
    Verb,
)
from skerry.policy.decide import OTHER_PEOPLE, RULES, Actor, Decision, Request, decide
from skerry.policy.file_kinds import LASTING, FileKind, FileSubject, kind_of
from skerry.policy.taint import foreign
from skerry.policy.tool_policy import ToolPolicy
from skerry.testing.model import ScriptedModels
from skerry.workspace.prompt_files import BOOT, ORDER

SCOPES = [(), *((scope,) for scope in sorted(OPERATOR_SCOPES)), (READ, WRITE)]
ORIGINS = list(Origin)
TAINTS = [frozenset[Origin](), *(frozenset({one}) for one in Origin if one is not Origin.OWNER)]
PEOPLE = [Actor(origin, is_private=own) for origin, own in product(ORIGINS, (False, True))]
TOOLS = ["read", "write", "edit", "session_search", "memory_search", "of_a_plugin"]


def own(actor: Actor) -> bool:
    return actor.is_private or actor.origin is Origin.OWNER


def starts(actor: Actor) -> bool:
    return own(actor) or actor.origin is Origin.BOOT


def holds(scopes: tuple[str, ...], expected: str) -> bool:
    return ADMIN in scopes or expected in scopes or (expected == READ and WRITE in scopes)


def doors() -> Iterator[tuple[Verb, str, Need]]:
    for name, need in METHODS.items():
        yield Verb.CALL, name, need
    for name, need in access.EVENTS.items():
        yield Verb.RECEIVE, name, need


def test_a_method_and_an_event_need_their_role_and_their_scope() -> None:
    for (verb, name, need), role, scopes in product(doors(), [*Role, None], SCOPES):
        decision = decide(Request(Actor(role=role, scopes=scopes), verb, name, need))
        fits = need.role in {None, role}
        expected = fits and (need.scope is None or holds(scopes, need.scope))
        assert decision.allowed is expected, (verb, name, role, scopes)
        assert decision.rule == ("met" if expected else "scope" if fits else "role")
        assert decision.scope == (None if expected or not fits else need.scope)


def test_a_connection_without_scopes_is_refused_by_the_rule_scope() -> None:
    request = Request(Actor(role=Role.OPERATOR), Verb.CALL, "status", access.READERS)
    assert decide(request).rule == "scope"


def table() -> CommandTable:
    commands = CommandTable()
    runtime = SimpleNamespace(models=ScriptedModels(None), commands=commands, store=None)
    dispatch: Any = SimpleNamespace(runtime=runtime)
    for command in every_command(CommandDependencies(lambda: pytest.fail("not asked"), dispatch)):
        commands.add(command)
    return commands


def test_a_command_needs_its_rights_and_over_a_client_the_scope_of_its_method() -> None:
    for command, rights, scopes in product(table(), Rights, [None, *SCOPES]):
        decision = command.decide(Actor(rights=rights, scopes=scopes))
        least = Rights.OPEN
        if command.owner_only:
            least = Rights.LISTED if command.listed else Rights.OWNER
        method = COMMANDS[command.name]
        scope = ADMIN if method == "sessions.patch" else METHODS[method].scope
        assert scope is not None
        may = rights.covers(least)
        fits = scopes is None or holds(scopes, scope)
        assert decision.allowed is (may and fits), (command.name, rights, scopes)
        if may and not fits:
            assert (decision.rule, decision.scope) == ("scope", scope)


def test_every_built_in_command_corresponds_to_a_method() -> None:
    assert {command.name for command in table()} == COMMANDS.keys()
    assert set(COMMANDS.values()) <= METHODS.keys()


@pytest.mark.parametrize("name", ["new", "model", "think", "compact", "restart", "config"])
def test_writing_alone_is_not_enough_for_what_needs_admin_as_a_method(name: str) -> None:
    assert access.command_scope(name) == ADMIN


def test_nobody_but_the_owner_has_a_tool_that_is_not_granted() -> None:
    for actor, name, granted in product(PEOPLE, TOOLS, [frozenset[str](), frozenset({"read"})]):
        decision = decide(Request(actor, Verb.USE, name, tools=ToolPolicy(granted)))
        assert decision.allowed is (starts(actor) or name in granted), (actor, name, granted)


def tainted() -> Iterator[Actor]:
    for actor, taint in product(PEOPLE, TAINTS):
        yield Actor(actor.origin, actor.is_private, taint=taint)


def file_of(kind: FileKind, closed: str = "") -> FileSubject:
    return FileSubject(kind, "/w/x", closed)


def test_what_later_runs_read_is_written_by_the_owner_in_an_untainted_run_alone() -> None:
    for actor, kind in product(tainted(), FileKind):
        decision = decide(Request(actor, Verb.WRITE, file=file_of(kind)))
        expected = kind is FileKind.PLAIN or (own(actor) and not foreign(actor.taint))
        assert decision.allowed is expected, (actor, kind)


def test_the_memory_is_read_for_the_owner_where_nobody_else_reads_with_them() -> None:
    for actor, kind in product(tainted(), FileKind):
        decision = decide(Request(actor, Verb.READ, file=file_of(kind)))
        remembered = kind in {FileKind.MEMORY, FileKind.UNVERIFIED}
        expected = not remembered or (starts(actor) and not OTHER_PEOPLE & actor.taint)
        assert decision.allowed is expected, (actor, kind)
        recalled = decide(Request(actor, Verb.RECALL)).allowed
        assert recalled is (starts(actor) and not OTHER_PEOPLE & actor.taint)
        assert decide(Request(actor, Verb.NOTE)).allowed is (
            own(actor) and not foreign(actor.taint)
        )


def test_a_closed_file_is_closed_to_everybody_and_no_file_is_nobodys() -> None:
    for actor, verb, kind in product(tainted(), (Verb.READ, Verb.WRITE), FileKind):
        assert decide(Request(actor, verb, file=file_of(kind, "closed"))).rule == "closed"
        assert decide(Request(actor, verb)).rule == "closed"


def test_a_file_is_obeyed_unless_a_tainted_run_or_another_user_wrote_it() -> None:
    for actor, taint, others in product(PEOPLE, TAINTS, (False, True)):
        subject = FileSubject(FileKind.INSTRUCTIONS, "/w/AGENTS.md", taint=taint, is_foreign=others)
        assert decide(Request(actor, Verb.OBEY, file=subject)).allowed is not (taint or others)
    assert not decide(Request(PEOPLE[0], Verb.OBEY)).allowed


def test_every_verb_ends_in_a_rule_for_the_rest_and_every_rule_has_a_name_of_its_own() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    for verb in Verb:
        assert decide(Request(Actor(), verb)) != Decision(allowed=False, rule="default")


def opened(path: str) -> Opened:
    return Opened(Path(path))


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        *((f"/w/{name}", FileKind.INSTRUCTIONS) for name in (*ORDER, BOOT) if name != "MEMORY.md"),
        ("/w/agents.MD", FileKind.INSTRUCTIONS),
        ("/w/MEMORY.md", FileKind.MEMORY),
        ("/w/Memory.md", FileKind.MEMORY),
        ("/w/memory/2026-11-22.md", FileKind.MEMORY),
        ("/w/Memory/deep/x.MD", FileKind.MEMORY),
        ("/w/memory/unverified/x.md", FileKind.UNVERIFIED),
        ("/w/memory/x.txt", FileKind.PLAIN),
        ("/w/hooks/x/handler.py", FileKind.LOADED),
        ("/w/notes/AGENTS.md", FileKind.PLAIN),
        ("/elsewhere/AGENTS.md", FileKind.PLAIN),
        ("/w/inner/AGENTS.md", FileKind.INSTRUCTIONS),
    ],
)
def test_a_file_is_known_by_its_place_in_a_workspace(path: str, kind: FileKind) -> None:
    assert kind_of(opened(path), frozenset({Path("/w"), Path("/w/inner")})) is kind


def test_a_second_name_of_the_workspace_or_the_memory_changes_nothing(tmp_path: Path) -> None:
    root, memory = tmp_path / "w", tmp_path / "w" / "memory"
    memory.mkdir(parents=True)
    marks = [(path.stat().st_dev, path.stat().st_ino) for path in (root, memory)]
    alias = Opened(Path("/elsewhere/AGENTS.md"), (marks[0],))
    assert kind_of(alias, frozenset({root})) is FileKind.INSTRUCTIONS
    alias = Opened(Path("/elsewhere/x.md"), ((0, 0), marks[1]))
    assert kind_of(alias, frozenset({root})) is FileKind.MEMORY


def test_each_kind_but_plain_is_kept_for_the_owner() -> None:
    assert frozenset(FileKind) - {FileKind.PLAIN} == LASTING
