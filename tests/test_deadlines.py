"""Every wait of the program has a deadline, or a reason why it has none; tests wait long enough."""

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]
SOURCE: Final = ROOT / "src/skerry"
TESTS: Final = ROOT / "tests"
WAITS: Final = {"acquire", "join", "receive", "recv", "run_sync", "sleep_forever", "wait"}
"""Names of functions that may wait for ever, less a leading underscore."""
LIMITS: Final = {"fail_after", "move_on_after"}
MIN_WAIT_SECONDS: Final = 60
"""Seconds that a test waits at least for what must happen: a busy machine is slow, not wrong."""

COMMIT: Final = "ends with a COMMIT; SQLite gives up a lock after 5 s"
DISK: Final = "reads or writes plain files of bounded size; a disk that hangs stops all else too"
OWNER: Final = "a service that waits for work; who owns its task cancels it"
PERSON: Final = "waits for the person, who can end it"
CALLER: Final = "whoever calls it sets the deadline"
RUN: Final = "ends with its run, which has `agents.defaults.timeoutSeconds`"

WITHOUT: Final = {
    "features/exec/process_tool.py:ProcessSessions.source": "looks up records in memory",
    "features/exec/sources.py:recorded": "at most `MAX_CHANGED_FILES` files are looked at",
    "features/exec/tool.py:Exec.source": "looks up records in memory",
    "runtime/tool_calls.py:_run_tool": "at most `MAX_CHANGED_FILES` files are looked at",
    "runtime/tool_calls.py:_by_policy": "within the limit of `assessed`",
    "runtime/typing_indicator.py:TypingIndicator.run": OWNER,
    "features/sandbox/sandbox_network.py:proxied.serve": OWNER,
    "gateway/idempotency.py:_IdempotentHandler.carry_out": "the first request has a limit",
    "features/webhooks/methods.py:webhooks_test": "examines at most a megabyte of text",
    "features/webhooks/routes.py:Webhooks._start": "examines at most a megabyte of text",
    "features/nodes/canvas_http.py:_answer": DISK,
    "features/nodes/canvas_tool.py:CanvasTool._page": DISK,
    "features/nodes/canvas_tool.py:CanvasTool.run": "decodes at most four pictures",
    "features/nodes/tool.py:NodesTool._invoke": "decodes four pictures, writes a file of 16 MB",
    "features/browser/actions.py:Actions._act": "has the seconds of the call",
    "features/browser/browser.py:Browser.begin": "within `START_SECONDS` of `Browsers._start`",
    "features/browser/browser.py:Browser.open_tab": "within the limit of `BrowserTool._call`",
    "features/browser/browsers.py:profile": DISK,
    "features/browser/cdp.py:Cdp.call": CALLER,
    "features/browser/tab.py:Tab.until": CALLER,
    "features/mcp/call_result.py:result_of": "decodes at most four pictures of 2 MB",
    "features/mcp/mcp_server.py:McpServer.first_attempt": "within `WAIT_SECONDS` of `prepare`",
    "features/mcp/mcp_server.py:McpServer._serve": "imports a module",
    "features/subagents/control.py:Control.send": "waits at most `WAIT_SECONDS`",
    "features/subagents/watch.py:Watch._descendants": RUN,
    "features/subagents/watch.py:Watch.follow": RUN,
    "features/session_tools/exchange.py:Follower.follow": RUN,
    "features/openai_api/follower.py:RunFollower._watch_run": RUN,
    "features/openai_api/follower.py:RunFollower._watch_client": RUN,
    "features/subagents/watch.py:Watch.report": "at most 20 MB of a transcript are examined",
    "net/proxy.py:_head": "within the deadline of `Proxy._serve`",
    "net/proxy.py:Proxy._upwards": "within the deadline that `_Watch` moves",
    "workspace/prompt_files.py:WorkspaceFiles.daily": DISK,
    "workspace/prompt_files.py:WorkspaceFiles.read": DISK,
    "runtime/compaction/memory_flush.py:MemoryAppend.run": DISK,
    "runtime/usage/ledger.py:Ledger._book_unbooked": COMMIT,
    "app/boot.py:boot": DISK,
    "workspace/skill_catalogue.py:SkillCatalogue.current": DISK,
    "features/skills/methods.py:skills_status": DISK,
    "features/skills/checks.py:broken_skills": DISK,
    "features/approvals/service.py:run": OWNER,
    "sdk/transcripts.py:Transcripts.wait": "the plugin that waits for messages limits it",
    "features/audit/checks.py:chain": DISK,
    "features/cron/scheduler.py:Scheduler._sleep": OWNER,
    "features/cron/service.py:run": OWNER,
    "features/cron/job_webhooks.py:Webhooks.run": OWNER,
    "features/heartbeat/checks.py:Heartbeats._obstacle": DISK,
    "features/heartbeat/service.py:_tick": OWNER,
    "features/heartbeat/service.py:run": OWNER,
    "features/exec/gateway_host.py:HostProcess.wait": "within the time limit of the command",
    "features/exec/notice.py:Notices.__call__": "waits for runs, each of which has a time limit",
    "features/exec/notice.py:message": "computes over at most 2,000 characters",
    "features/exec/process_tool.py:_kill": "has `KILL_SECONDS`",
    "features/exec/process_session.py:ProcessSession._follow": "within the limit of the command",
    "features/exec/tool.py:Exec.run": "has the seconds of `yieldMs`, then the command goes on",
    "features/exec/tool.py:Exec._bound": "within the ten seconds of the gate of a tool",
    "lanes/lanes.py:Lanes.outside": "ends when another job of its group ends",
    "runtime/late_calls.py:LateCalls._report": "computes over at most 262,144 characters",
    "runtime/late_calls.py:LateCalls._watch.watch": OWNER,
    "runtime/internal_runs.py:InternalRuns.collect": OWNER,
    "runtime/internal_runs.py:InternalRuns.finish": CALLER,
    "runtime/internal_runs.py:InternalRuns._settlement": RUN,
    "runtime/call_approvals.py:RunApprovals.ask": "has 30 s; the rest ends with a COMMIT",
    "app/channels.py:LiveChannels.run": OWNER,
    "channels/email/adapter.py:EmailAdapter.run": OWNER,
    "features/memory/media.py:MediaCopies.discard": DISK,
    "features/retention/service.py:look": DISK,
    "channels/discord/adapter.py:DiscordAdapter.run": OWNER,
    "channels/discord/gateway_connection.py:GatewayConnection._exchange": "two beats a message",
    "channels/discord/gateway_connection.py:GatewayConnection._take": "limit of a message",
    "app/channel_vault.py:StoreVault._make_file": DISK,
    "app/channel_vault.py:StoreVault.open": DISK,
    "app/channel_vault.py:StoreVault.renew": DISK,
    "app/channel_vault.py:StoreVault.write": DISK,
    "channels/matrix/adapter.py:MatrixAdapter.fetch": "decrypts at most 10 MB",
    "channels/matrix/room_sender.py:RoomSender._file": DISK,
    "sdk/channel_files.py:read_file": DISK,
    "sdk/channel_posts.py:Intake.take": CALLER,
    "channels/signal/adapter.py:SignalAdapter._receive": "each event has `SILENT_SECONDS`",
    "channels/signal/adapter.py:SignalAdapter.run": OWNER,
    "channels/slack/adapter.py:SlackAdapter.run": OWNER,
    "channels/slack/http_adapter.py:SlackHttpAdapter.run": OWNER,
    "channels/slack/adapter.py:SlackAdapter._receive": "each message has `SILENT_SECONDS`",
    "runtime/media_in.py:with_files": "each file has `FETCH_SECONDS`",
    "runtime/media_in.py:MediaFolder._store": DISK,
    "app/extensions.py:LivePlugins.run": OWNER,
    "app/services.py:Services.run": OWNER,
    "runtime/conversation.py:examined": "computes over at most 65,536 characters",
    "runtime/dispatcher.py:Dispatch.run_exclusive.hold": "holds the lane during one change",
    "runtime/dispatcher.py:Dispatch._receive_held": COMMIT,
    "runtime/dispatcher.py:Dispatch.receive": COMMIT,
    "runtime/dispatcher.py:Dispatch.submit": COMMIT,
    "features/memory/checks.py:_look": DISK,
    "features/memory/embedding_models.py:Embedders._keep": OWNER,
    "runtime/queue.py:Queue.take_up": COMMIT,
    "app/settings.py:Settings._apply": DISK,
    "app/settings.py:Settings.look": DISK,
    "app/settings.py:Settings.preview": DISK,
    "app/setup.py:ModelSettings.use_model": DISK,
    "auth/credentials.py:Credentials.secret": DISK,
    "auth/refresh.py:Renewal._renewed": DISK,
    "auth/refresh.py:Renewal._secret": DISK,
    "auth/signin.py:Callback.answer": CALLER,
    "auth/signin.py:typed": "within `WAIT_SECONDS` of `_answer`",
    "features/channels/logins.py:LoginAttempt.pasted": "within `WAIT_SECONDS` of the sign-in",
    "auth/signin.py:_target": "within the deadline of its connection",
    "features/chat/conversation.py:ClientConversation._connected": PERSON,
    "features/chat/conversation.py:ClientConversation._keep": PERSON,
    "features/chat/conversation.py:ClientConversation.say": PERSON,
    "features/fences/cli_run.py:_confirmed_hash": PERSON,
    "features/sessions/cli_import.py:_import_file": DISK,
    "features/logs/cli_run.py:_of_file.read": DISK,
    "features/memory/cli_bench.py:_measured": "measures, with a bar; whoever started it can end it",
    "features/sessions/cli_run.py:_export": DISK,
    "client/client.py:GatewayClient._device": "signs; within the deadline of `_greeted`",
    "client/client.py:GatewayClient._greet": "within the deadline of `_greeted`",
    "client/client.py:GatewayClient._receive": OWNER,
    "gateway/connection.py:ClientConnection._wait_for_room": "closes a client that does not read",
    "gateway/connection.py:ClientConnection._next_text": "a client may be silent; ticks end it",
    "gateway/dispatch.py:MethodTable._call_feature": "imports a module",
    "gateway/device_identity.py:check": "verifies a signature, within the handshake's deadline",
    "gateway/listen.py:_Server.main_loop": OWNER,
    "features/agents/change_methods.py:agents_delete": DISK,
    "features/agents/file_methods.py:files_get": DISK,
    "features/agents/file_methods.py:files_list": DISK,
    "features/agents/file_methods.py:files_set": DISK,
    "gateway/methods/agents.py:agent_identity": DISK,
    "gateway/methods/agents.py:agents_list": DISK,
    "features/config/methods.py:config_schema": "computes",
    "features/fences/methods.py:_judged_file": DISK,
    "features/fences/methods.py:fences_list": DISK,
    "features/logs/methods.py:logs_tail": DISK,
    "features/markdown/methods.py:markdown_render": "in a process that may take 5 s of CPU a text",
    "gateway/methods/runs.py:_run": RUN,
    "gateway/methods/runs.py:agent_wait": "has `timeoutMs`",
    "gateway/presence.py:Presence.after": OWNER,
    "gateway/connection.py:Accept.__call__": "uvicorn's first message, which is there",
    "gateway/server.py:_WebSockets._accept_first": "imports a module",
    "infra/supervise.py:Supervisor._cancel": "has its `timeout`",
    "infra/supervise.py:Supervisor.close": "has its `timeout`",
    "infra/process.py:Child.wait": CALLER,
    "infra/process.py:Child.aclose": "has killed it",
    "features/sandbox/containers.py:Containers._start": "mounts, within milliseconds",
    "features/sandbox/containers.py:Containers.running": "opens mounts, within milliseconds",
    "features/sandbox/bubblewrap.py:Bubblewrap.running": "prepares mounts, within milliseconds",
    "features/sandbox/command.py:RunningCommand.wait": CALLER,
    "features/sandbox/sandbox_holder.py:Sandboxes.within": DISK,
    "features/sandbox/selftest.py:_ended": "looks a hundred times",
    "infra/sockets.py:Stream.read": "has `seconds`",
    "infra/sockets.py:Stream.write": "has `seconds`",
    "infra/supervise.py:in_daemon_thread": CALLER,
    "features/memory/memories.py:BuiltinMemories.open": "a job sees soon that the index is closed",
    "features/memory/builtin.py:_thread": CALLER,
    "features/memory/erasure.py:Forgetter._end": RUN,
    "features/memory/erasure.py:Forgetter._sweep": DISK,
    "app/records.py:forget_gone": DISK,
    "features/memory/erasure.py:Forgetter._with_backups": DISK,
    "features/memory/erasure.py:Forgetter.look": DISK,
    "features/memory/erasure.py:Forgetter.run": OWNER,
    "features/memory/service.py:MemorySearchService.files": DISK,
    "features/memory/service.py:MemorySearchService.get": DISK,
    "features/memory/service.py:MemorySearchService.notes": DISK,
    "features/memory/service.py:MemorySearchService.save": DISK,
    "features/memory/service.py:MemorySearchService.undo": DISK,
    "features/memory/service.py:MemorySearchService.whole": DISK,
    "features/memory/service.py:MemorySearchService.write": DISK,
    "features/memory/passage_embedding.py:_thread": DISK,
    "features/memory/index_keeper.py:IndexKeeper._look": DISK,
    "features/memory/qmd.py:QmdMemory._bind": DISK,
    "features/memory/qmd.py:QmdMemory._index": DISK,
    "features/memory/qmd.py:QmdMemory._mend": DISK,
    "features/memory/qmd.py:QmdMemory._watch": DISK,
    "features/memory/qmd.py:QmdMemory.document": DISK,
    "features/memory/qmd.py:QmdMemory.search": DISK,
    "features/memory/qmd_commands.py:QmdCommands.bind": DISK,
    "features/memory/qmd.py:QmdMemory.forget": DISK,
    "features/memory/qmd_daemon.py:QmdDaemon.run": OWNER,
    "features/memory/qmd_daemon.py:QmdDaemon.stop": "the process was killed: this takes a moment",
    "infra/supervise.py:first_of.first": CALLER,
    "features/memory/qmd_sessions.py:SessionExport.__call__": DISK,
    "features/memory/qmd_rpc.py:JsonRpc.request": CALLER,
    "features/embedded_model/provider.py:EmbeddedProvider._run": OWNER,
    "providers/offering.py:ModelLister._answer": DISK,
    "providers/candidates.py:CatalogTries._freed": "ends with another run's call of the model",
    "providers/candidates.py:CredentialProbes.wait": CALLER,
    "store/mirror.py:Mirror._append_dirty": DISK,
    "store/mirror.py:Mirror._save": DISK,
    "store/mirror.py:Mirror.repair": DISK,
    "store/store.py:TouchedSessions.due": CALLER,
    "store/store.py:Store.read": "reads the database, on its own disk",
    "store/store.py:open_store": "the last units are committed; what is refused fails at once",
    "features/files/apply_patch.py:ApplyPatch.run": DISK,
    "features/files/edit_tool.py:Edit.run": DISK,
    "features/files/image.py:Image.run": DISK,
    "features/files/methods.py:files_changes": DISK,
    "features/session_tools/session_send.py:SessionsSend.run": "waits at most 300 s",
    "runtime/media_out.py:Outbox.copied": DISK,
    "gateway/methods/answer_pictures.py:add_pictures": DISK,
    "features/files/methods.py:files_undo": DISK,
    "features/files/read_tool.py:Read.run": DISK,
    "features/files/write_tool.py:Write.run": DISK,
    "plugins/remote/rpc.py:RpcConnection.call": "each call of a plugin's part has a deadline",
    "plugins/remote/rpc.py:RpcConnection._read": "a plugin's process is silent as long as it likes",
    "plugins/remote/serving.py:Serving.answer": "a plugin's process waits for a message",
}

DEADLINES: Final = {
    "a client's HTTP request; each connection carries one": "gateway.protocol.HEAD_SECONDS",
    "a client's `connect`": "gateway.connection.HANDSHAKE_SECONDS",
    "a client's answer to a close": "gateway.protocol.CLOSE_SECONDS",
    "a change of a session that has an active run": "runtime.dispatcher.EXCLUSIVE_SECONDS",
    "a platform that is sent a reply": "runtime.delivery.SEND_SECONDS",
    "a plugin that registers": "plugins.registering.REGISTER_SECONDS",
    "a plugin's tool": "plugins.guarded.TOOL_SECONDS",
    "a plugin's command": "plugins.guarded.COMMAND_SECONDS",
    "a plugin's gateway method": "plugins.guarded.METHOD_SECONDS",
    "a hook": "hooks.points.SECONDS",
    "QMD, for a command that neither searches nor indexes": (
        "features.memory.qmd_commands.COMMAND_SECONDS"
    ),
    "QMD's server that starts": "features.memory.qmd_daemon.START_SECONDS",
    "a memory of the slot, before the next is asked": "features.memory.slot.SEARCH_SECONDS",
    "the last memory of the slot": "features.memory.slot.LAST_SECONDS",
    "the embedded model that loads": "features.embedded_model.provider._START_SECONDS",
    "a provider that renews a sign-in": "auth.refresh.EXCHANGE_SECONDS",
    "the detection of a local model server": "providers.probe.PROBE_SECONDS",
    "`skerry models test`": "app.trial.TRIAL_SECONDS",
    "`skerry update check`": "features.update.cli_run.SECONDS",
    "systemd, for `skerry service`": "features.service.cli_run._SECONDS",
    "the greeting of a gateway, for every command": "client.client.HANDSHAKE_SECONDS",
    "replies being sent, and files being written, at the end": "app.build.FLUSH_SECONDS",
}


class Finder(ast.NodeVisitor):
    """Collects the functions that wait outside a deadline."""

    def __init__(self) -> None:
        self.found: set[str] = set()
        self._names: list[str] = []
        self._limits = 0

    def _inside(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        outer, self._limits = self._limits, 0
        self._names.append(node.name)
        self.generic_visit(node)
        self._names.pop()
        self._limits = outer

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _inside  # noqa: N815 - ast calls them by these names

    def _block(self, node: ast.With | ast.AsyncWith) -> None:
        calls = [item.context_expr for item in node.items]
        limits = sum(isinstance(call, ast.Call) and _name(call) in LIMITS for call in calls)
        self._limits += limits
        self.generic_visit(node)
        self._limits -= limits

    visit_With = visit_AsyncWith = _block  # noqa: N815 - the same

    def visit_Await(self, node: ast.Await) -> None:
        call = node.value
        if isinstance(call, ast.Call) and _name(call) in WAITS and not self._limits:
            self.found.add(".".join(self._names))
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        runs = ast.unparse(node.func) in {"subprocess.run", "urlopen", "urllib.request.urlopen"}
        if runs and "timeout" not in {keyword.arg for keyword in node.keywords}:
            self.found.add(".".join(self._names))
        self.generic_visit(node)


def _name(call: ast.Call) -> str:
    named = call.func
    name = named.attr if isinstance(named, ast.Attribute) else getattr(named, "id", "")
    return name.lstrip("_")


def _waiting() -> Iterator[str]:
    for file in sorted(SOURCE.rglob("*.py")):
        if file.is_relative_to(SOURCE / "testing"):
            continue
        finder = Finder()
        finder.visit(ast.parse(file.read_text()))
        yield from (f"{file.relative_to(SOURCE)}:{one}" for one in finder.found)


def test_what_waits_has_a_deadline_or_a_reason() -> None:
    assert set(_waiting()) == WITHOUT.keys()


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("async def f(e):\n    await e.wait()", {"f"}),
        ("async def f(e):\n    with fail_after(1):\n        await e.wait()", set()),
        ("def f():\n    with move_on_after(1):\n        async def g(): await recv()", {"f.g"}),
        ("def f():\n    subprocess.run(['x'])", {"f"}),
        ("def f():\n    subprocess.run(['x'], timeout=1)", set()),
    ],
)
def test_the_finder_finds(code: str, found: set[str]) -> None:
    finder = Finder()
    finder.visit(ast.parse(code))
    assert finder.found == found


@pytest.mark.parametrize("what", DEADLINES)
def test_the_guide_tells_the_deadline(what: str) -> None:
    module, _, name = DEADLINES[what].rpartition(".")
    seconds = getattr(import_module(f"skerry.{module}"), name)
    guide = (ROOT / "docs/guide/security.md").read_text()
    row = re.escape(f"| {what[0].upper()}{what[1:]} | {seconds:g} s |")
    assert re.search(row, guide), f"{row} is not in docs/guide/security.md"


def _impatient(code: str) -> list[str]:
    """Returns the limits of a test that a busy machine may not keep."""
    calls = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
    limits = [(call, call.args[0]) for call in calls if _name(call) == "fail_after" and call.args]
    limits += [
        (call, word.value)
        for call in calls
        if ast.unparse(call.func) in {"subprocess.run", "pytest.mark.timeout"}
        for word in [*call.keywords, *(ast.keyword("timeout", arg) for arg in call.args)]
        if word.arg == "timeout"
    ]
    return [
        f"line {call.lineno}: {ast.unparse(limit)} s"
        for call, limit in limits
        if isinstance(limit, ast.Constant) and float(ast.unparse(limit)) < MIN_WAIT_SECONDS
    ]


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("with fail_after(10): pass", ["line 1: 10 s"]),
        ("with anyio.fail_after(60): pass", []),
        ("subprocess.run(['x'], timeout=20)", ["line 1: 20 s"]),
        ("@pytest.mark.timeout(30)\ndef test(): pass", ["line 1: 30 s"]),
    ],
)
def test_impatience_is_found(code: str, found: list[str]) -> None:
    assert _impatient(code) == found


def test_tests_are_patient() -> None:
    files = [path for path in TESTS.rglob("*.py") if "node_modules" not in path.parts]
    found = {path: _impatient(path.read_text()) for path in files if path != Path(__file__)}
    assert {path: limits for path, limits in found.items() if limits} == {}
