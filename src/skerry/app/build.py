"""Constructs and connects everything; the only file that names concrete classes."""

from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from functools import partial
from typing import Any

import anyio
from msgspec import Struct, field

from skerry.app.channels import AccountHosts, LiveChannels, open_sender
from skerry.app.command_dependencies import CommandDependencies
from skerry.app.cooling import kept_cooldowns
from skerry.app.extensions import (
    LivePlugins,
    OwnTools,
    connect_features,
    load_hook_folders,
    provide_commands,
)
from skerry.app.left_open import left_open
from skerry.app.maintenance import Upkeep, looked_after, unless_damaged
from skerry.app.plugin_parts import PluginParts
from skerry.app.records import stored_records
from skerry.app.reload import Reload
from skerry.app.services import Services, of_features
from skerry.app.settings import Settings, check_secret
from skerry.app.setup import ModelSettings
from skerry.app.tool_host import tool_host
from skerry.config.gateway import LOCK
from skerry.config.root import Config
from skerry.config.secrets import secrets
from skerry.gateway.broadcast import Broadcast
from skerry.gateway.context import GatewayContext
from skerry.gateway.health import Health
from skerry.gateway.presence import Presence
from skerry.gateway.session_events import SessionEvents
from skerry.gateway.system_events import SystemEvents
from skerry.hooks.events import GatewayStop
from skerry.hooks.hooks import Hooks
from skerry.infra.clock import Clock, SystemClock
from skerry.infra.http import HttpClient
from skerry.infra.lock import LockedError, locked
from skerry.infra.log import Redactor
from skerry.infra.supervise import Supervisor
from skerry.lanes.active_runs import ActiveRuns
from skerry.lanes.lanes import Lanes
from skerry.model.errors import StateError, StateLockedError
from skerry.policy.channel_access import AccessRules
from skerry.policy.file_records import FileRecords
from skerry.ports.channel import ChannelAdapter
from skerry.ports.memory import Memories
from skerry.ports.model import Models
from skerry.providers.catalog import Catalog
from skerry.runtime.approvals import ApprovalDesk
from skerry.runtime.channel_gate import NO_RULES, ChannelGate
from skerry.runtime.conversation import ConversationCache
from skerry.runtime.delivery import Senders, receive
from skerry.runtime.dispatcher import Dispatch
from skerry.runtime.internal_runs import InternalRuns
from skerry.runtime.late_calls import LateCalls
from skerry.runtime.prompt_report import report
from skerry.runtime.run_context import Runtime
from skerry.runtime.usage.ledger import Ledger
from skerry.sdk.features import bundled_skills
from skerry.sdk.slots import Live, MemoryHost, model_parts, open_memory, open_transcriber
from skerry.store import DATABASE, Store, no_fault, open_store
from skerry.store.call_log import CallLog
from skerry.store.indexing import Indexer
from skerry.store.mirror import Mirror
from skerry.workspace.prompt_builder import Prompts
from skerry.workspace.skill_catalogue import SkillCatalogue
from skerry.workspace.workspace_init import seed

FLUSH_SECONDS = 5.0
Service = Callable[[], Coroutine[Any, Any, None]]


def _stay(_: float, __: int) -> None:
    """Sets no limit for the end of the process."""


class Outside(Struct, frozen=True):
    """External dependencies, which tests can replace."""

    models: Models | None = None
    """Models of a test, without embeddings; None for the catalogue."""
    adapters: Sequence[ChannelAdapter] = ()
    unnamed_channels: Mapping[str, AccessRules] = NO_RULES
    """Access rules of channels that the configuration does not name, for tests."""
    memories: Memories | None = None
    clock: Clock = field(default_factory=SystemClock)
    reach: Callable[[str], None] = no_fault
    """Called with the name of each fault point."""
    hooks: Hooks = field(default_factory=Hooks)
    """Hooks for plugins."""
    leave_within: Callable[[float, int], object] = _stay
    """Limits the end of the process: called with seconds and an exit code when the gateway stops,
    and again when its state is closed."""
    hide: Callable[[Iterable[str]], object] = set
    """Called with all secrets at the start and after a change, to remove them from the log."""


class Application(Struct, frozen=True):
    """A running gateway without its socket."""

    context: GatewayContext
    dispatch: Dispatch
    settings: Settings
    hooks: Hooks
    restart: anyio.Event
    """Set when the gateway must restart for a change of the configuration."""

    async def drain(self) -> bool:
        """Refuses new work and waits for runs; returns True when all ended in `drainSeconds`."""
        self.context.health.fail("draining")
        self.hooks.gateway_stop.start(GatewayStop(reason="The gateway is stopping."))
        return await self.dispatch.drain(self.settings.config.gateway.drain_seconds)


@asynccontextmanager
async def open_application(  # noqa: PLR0915 - one for each part, in the order of their needs
    settings: Settings, environ: Mapping[str, str], outside: Outside
) -> AsyncGenerator[Application]:
    """Runs a gateway for the block: owns the state directory and resumes open runs.

    Raises:
        ConfigError: the secret that clients must present is not set.
        StateLockedError: another gateway owns the directory.
        StateError: the database cannot be used.
    """
    check_secret(settings.config)

    config = settings.present
    redact = _hide(settings, environ, outside)
    clock, health, started_ms = outside.clock, Health(), outside.clock.now_ms()
    broadcast = Broadcast(clock)
    session_events, indexer = SessionEvents(broadcast, clock.now_ms), Indexer()

    async with (
        open_state(config(), outside.reach, starting=True) as (store, mirror),
        _running(partial(indexer.run, store)),
        _models(settings, environ, outside, store) as models,
        outside.hooks,
    ):
        store.follow(session_events.touched.add)
        store.follow(indexer.touched.add)
        ledger, records, live = await _state_of_runs(store, config, clock, environ)
        host = MemoryHost(
            config,
            environ,
            store,
            mirror,
            ledger,
            clock,
            redact,
            outside.hooks,
            live,
            outside.memories,
            outside.models is None,
            outside.reach,
        )
        async with open_memory(host) as memory:
            tools = OwnTools(  # made when the first message arrives, after `context` is assigned
                memory.tools,
                lambda: tool_host(
                    context,
                    environ,
                    delivery,
                    services,
                    host.claims.searches,
                    live.prompts.skills.loaded,
                ),
            )
            delivery = Senders({})
            sender = partial(
                open_sender,
                *(settings, store, clock, outside.reach, outside.hooks, delivery.wake, redact),
            )
            delivery.senders.update({(a.channel, a.account): sender(a) for a in outside.adapters})
            lanes = Lanes(*_limits(config()))
            runtime = Runtime(
                store=store,
                models=models,
                tools=tools,
                config=config,
                clock=clock,
                histories=live.histories,
                running=live.running,
                publish=broadcast.publish,
                delivery=delivery,
                ledger=ledger,
                hooks=outside.hooks,
                supervisor=Supervisor(clock),
                records=records,
                prompts=live.prompts,
                approvals=ApprovalDesk(
                    store, clock, lanes.outside, outside.reach, redact, delivery
                ),
                transcriber=partial(open_transcriber, config, environ, ledger),
            )
            gate = ChannelGate(
                store, clock, delivery, broadcast.send, outside.unnamed_channels, outside.reach
            )
            dispatch = Dispatch(runtime, lanes, outside.reach, gate)
            reload = Reload(settings, broadcast, health, lambda: bool(dispatch.active()))
            desk = CommandDependencies(config, dispatch, settings, reload.restart.set)
            provide_commands(desk, memory)
            services = Services(clock)
            parts = PluginParts(
                broadcast=broadcast,
                services=services,
                delivery=delivery,
                sender=sender,
                inbox=dispatch.receive,
                models=models,
                claims=host.claims,
            )
            connect_features(outside.hooks, tools, parts)
            plugins = LivePlugins(config, runtime, tools, parts, outside.reach, memory.embeddings)
            await plugins.load()
            settings.on_change(plugins.touch)
            hosts = AccountHosts(
                clock, store, runtime.commands, live.prompts.skills, config, redact
            )
            channels = LiveChannels(config, delivery, parts.sender, dispatch.receive, hosts)
            channels.open()
            settings.on_change(channels.touch)
            await load_hook_folders(config(), outside.hooks, environ, clock, store)
            context = GatewayContext(
                config=config,
                dispatcher=dispatch,
                store=store,
                models=models,
                setup=ModelSettings(settings, models, environ),
                broadcast=broadcast,
                presence=Presence(clock),
                session_events=session_events,
                clock=clock,
                started_ms=started_ms,
                health=health,
                system_events=SystemEvents(clock),
                commands=runtime.commands,
                plugins=plugins,
                configuration=settings,
                hooks=outside.hooks,
                show_prompt=partial(report, runtime),
                memory=memory.service,
                forgets=memory.forgets,
                records=records,
                budgets=lambda: [*ledger.report(), *ledger.meter.report()],
                hurry=delivery.hurry,
                approvals=runtime.approvals,
                internal_runs=InternalRuns(dispatch),
                tools=lambda: [tool.spec for tool in tools.values()],
                tool_sources=lambda: tools.sources,
                channels=channels,
            )
            services.start("features", of_features(context))
            async with (
                plugins.ending(),
                _working(settings, dispatch, mirror, delivery, outside),
                memory.keep(),
                _running(reload.run, plugins.run, services.run, channels.run),
            ):
                yield Application(context, dispatch, settings, outside.hooks, reload.restart)


async def _state_of_runs(
    store: Store, config: Callable[[], Config], clock: Clock, environ: Mapping[str, str]
) -> tuple[Ledger, FileRecords, Live]:
    """Returns the ledger, the file records and the live state, which all runs share."""
    ledger = Ledger(store, config, clock, CallLog(config().state_dir))
    await ledger.open()
    records = await stored_records(store, clock)
    skills = SkillCatalogue(environ, records, bundled_skills())
    live = Live(ActiveRuns(), ConversationCache(store), Prompts.over(store, records, skills))
    return ledger, records, live


def _hide(settings: Settings, environ: Mapping[str, str], outside: Outside) -> Redactor:
    """Returns a redactor of all secrets, and updates it and the log when they change."""
    redactor = Redactor()

    def hide(config: Config) -> None:
        texts = list(secrets(config, environ))
        outside.hide(texts)
        redactor.set_secrets(texts)

    hide(settings.config)
    settings.on_change(hide)
    return redactor


@asynccontextmanager
async def open_state(
    config: Config,
    reach: Callable[[str], None] = no_fault,
    *,
    starting: bool = False,
) -> AsyncGenerator[tuple[Store, Mirror]]:
    """Owns the state directory, its database and its repaired mirror for the block.

    `starting` selects the message of `StateLockedError` for a start of a gateway.

    Raises:
        StateLockedError: another gateway owns the directory.
        StateError: the directory does not exist, or the database cannot be used.
    """
    if not config.state_dir.is_dir():
        error = StateError(f"There is no state directory {config.state_dir}.")
        error.remedy = "The first `skerry gateway run` makes it; SKERRY_STATE_DIR names another."
        raise error
    with ExitStack() as stack:
        try:
            holding = locked(config.state_dir / LOCK, note=str(config.gateway.port))
            orderly = stack.enter_context(holding)
        except LockedError as error:
            directory, pid = str(config.state_dir), error.owner.pid
            raise StateLockedError(directory, pid, starting=starting) from error
        for agent in config.agents.ids:
            seed(config.workspace(agent), skip=config.agents.defaults.skip_bootstrap)
        workspace = config.workspace(config.agents.default_id)
        mirror = Mirror(config.state_dir / "agents", workspace, reach)
        path = config.state_dir / DATABASE
        opening = open_store(path, on_commit=mirror.touched.add, reach=reach)
        async with opening as store, looked_after(store, orderly=orderly):
            await unless_damaged(store, mirror.repair(store))
            yield store, mirror


@asynccontextmanager
async def _models(
    settings: Settings, environ: Mapping[str, str], outside: Outside, store: Store
) -> AsyncGenerator[Models]:
    """Yields the models of a test, or the catalogue of all models."""
    if outside.models is not None:
        yield outside.models
        return
    async with (
        HttpClient() as http,
        Catalog(settings.config, http, environ, model_parts()) as catalog,
    ):
        catalog.resume(await kept_cooldowns(store, outside.clock), outside.clock)
        settings.on_change(catalog.reconfigure)
        yield catalog


@asynccontextmanager
async def _working(
    settings: Settings, dispatch: Dispatch, mirror: Mirror, delivery: Senders, outside: Outside
) -> AsyncGenerator[None]:
    """Resumes open runs, then receives, runs and delivers messages during the block."""
    runtime, store = dispatch.runtime, dispatch.runtime.store
    open_runs = await unless_damaged(store, left_open(runtime, settings.config)) or []
    late = LateCalls(dispatch, desk) if (desk := runtime.approvals) else None
    if late is not None:
        await unless_damaged(store, late.desk.interrupt())
    async with AsyncExitStack() as stack:
        stack.push_async_callback(_flush, store, mirror, delivery)
        upkeep = Upkeep(store, settings.config.state_dir, outside.clock)
        background = (partial(mirror.run, store), upkeep.run)
        accounts = {(adapter.channel, adapter.account) for adapter in outside.adapters}
        sending = [sender.run for key, sender in delivery.senders.items() if key in accounts]
        await stack.enter_async_context(_running(*background, *sending))
        lanes = await stack.enter_async_context(dispatch.lanes)
        settings.on_change(lambda config: lanes.resize(*_limits(config)))
        for run in open_runs:
            dispatch.resume(run)
        await unless_damaged(store, dispatch.release())
        if late is not None:
            await stack.enter_async_context(_running(late.run))
        receiving = (partial(receive, adapter, dispatch.receive) for adapter in outside.adapters)
        await stack.enter_async_context(_running(*receiving))
        yield


def _limits(config: Config) -> tuple[int, int, int]:
    """Returns the limits of concurrent runs: of people, of sub-agents, of schedules."""
    of, cron = config.agents.defaults, config.cron
    return of.max_concurrent, of.subagents.max_concurrent, cron.max_concurrent_runs


@asynccontextmanager
async def _running(*services: Service) -> AsyncGenerator[None]:
    """Runs the services during the block, then cancels them."""
    async with anyio.create_task_group() as tasks:
        for service in services:
            tasks.start_soon(service)
        yield
        tasks.cancel_scope.cancel()


async def _flush(store: Store, mirror: Mirror, delivery: Senders) -> None:
    """Sends and mirrors the last results within a limit; the next start does the rest."""
    with anyio.move_on_after(FLUSH_SECONDS, shield=True):
        await delivery.flush()
    with anyio.move_on_after(FLUSH_SECONDS, shield=True):
        await mirror.flush(store)
