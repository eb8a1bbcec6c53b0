"""Connects the accounts of `channels` in the configuration, independently of each other."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

import anyio
import anyio.abc
from msgspec import Struct, field
from msgspec.structs import replace

from skerry.app.late import channel_host, channel_menu, channel_vault
from skerry.app.settings import Settings
from skerry.commands.table import CommandTable
from skerry.config.channels import ChannelAccount, ChannelConfig
from skerry.config.messages import UnknownDelivery
from skerry.config.root import Config
from skerry.hooks.hooks import Hooks
from skerry.infra.channels import PLATFORMS, Platform
from skerry.infra.clock import Clock
from skerry.infra.supervise import keep_running
from skerry.model.ids import AccountId, ChannelId
from skerry.model.inbound import InboundMessage, ReplyTo
from skerry.ports.channel import (
    NO_CAPABILITIES,
    AccountReport,
    AccountState,
    ChannelAdapter,
    ConnectionState,
    Inbox,
    Probes,
    TakesPosts,
    account_state,
    capabilities,
)
from skerry.runtime.delivery import Sender, Senders, receive
from skerry.store import Store, channel_state
from skerry.workspace.skill_catalogue import SkillCatalogue

logger = logging.getLogger(__name__)

PROBE_SECONDS: Final = 20.0
CLOSE_SECONDS: Final = 30.0
"""Limit of the wait for a running send, whose own limit is half of it."""
FOLDER: Final = "channels"
"""Folder in the state directory with the keys of accounts."""
_Key = tuple[ChannelId, AccountId]


class _Account(Struct):
    """One account, from its settings to its tasks."""

    settings: ChannelAccount
    adapter: ChannelAdapter | None = None
    sender: Sender | None = None
    failure: AccountState | None = None
    """State of an account whose adapter could not be opened or closed."""
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    ended: anyio.Event = field(default_factory=anyio.Event)
    is_running: bool = False
    last_inbound_at: int = 0


class LiveChannels:
    """The accounts of the present configuration. Implements `ports.channel.Channels`.

    A platform is imported when the configuration has an account of it.
    """

    def __init__(
        self,
        config: Callable[[], Config],
        delivery: Senders,
        sender: Callable[[ChannelAdapter], Sender],
        inbox: Inbox,
        hosts: "AccountHosts",
    ) -> None:
        self._config = config
        self._delivery = delivery
        self._sender = sender
        self._inbox = inbox
        self._hosts = hosts
        self._accounts: dict[_Key, _Account] = {}
        self._restarts: set[_Key] = set()
        self._changed = anyio.Event()

    def touch(self, _: Config) -> None:
        """Follows a change of the configuration soon."""
        self._changed.set()

    def open(self) -> None:
        """Opens the adapters of new accounts of the configuration.

        Their senders are needed to cut and finish answers of an earlier process.
        """
        for key, settings in self._configured().items():
            if key not in self._accounts and key not in self._delivery.senders:
                self._accounts[key] = self._opened(key, settings)

    async def run(self) -> None:
        """Connects accounts, and applies changes of the configuration, until cancelled."""
        async with anyio.create_task_group() as tasks:
            while True:
                self._changed = anyio.Event()
                await self._close_outdated()
                self.open()
                for key, account in self._accounts.items():
                    if account.adapter is not None and not account.is_running:
                        account.is_running = True
                        tasks.start_soon(self._run, key, account)
                await self._changed.wait()

    def _configured(self) -> dict[_Key, ChannelAccount]:
        return {
            (ChannelId(name), account): settings
            for name, section in self._config().channels.items()
            if name in PLATFORMS
            for account, settings in section.connected().items()
        }

    async def _close_outdated(self) -> None:
        """Closes accounts that were removed or changed, or must restart."""
        configured, restarts = self._configured(), self._restarts
        self._restarts = set()
        outdated = [
            key
            for key, account in self._accounts.items()
            if key in restarts or configured.get(key) != account.settings
        ]
        for key in outdated:
            await self._close(key, self._accounts[key])

    async def _close(self, key: _Key, account: _Account) -> None:
        account.scope.cancel()
        self._delivery.senders.pop(key, None)
        with anyio.move_on_after(CLOSE_SECONDS):
            if account.is_running:
                await account.ended.wait()
        if account.is_running:
            logger.error("%s/%s did not end in %g s", *key, CLOSE_SECONDS)
            message = f"Its old connection did not end in {CLOSE_SECONDS:g} s."
            remedy = "Stop the gateway and start it again."
            account.failure = AccountState(ConnectionState.STOPPED, message, remedy)
            account.settings = self._configured().get(key, account.settings)
        else:
            del self._accounts[key]

    def _opened(self, key: _Key, settings: ChannelAccount) -> _Account:
        account = _Account(settings)
        try:
            account.adapter = self._hosts.adapter(
                PLATFORMS[key[0]], key[1], settings, SenderReports(self._delivery, key)
            )
        except Exception as error:
            # A failure of one platform must not end the others.
            logger.exception("%s/%s cannot be opened", *key)
            message = f"It cannot be opened: {type(error).__name__}: {error}"
            remedy = getattr(error, "remedy", "") or "The log has more: `skerry logs`."
            account.failure = AccountState(ConnectionState.STOPPED, message, remedy)
            return account
        account.sender = self._sender(account.adapter)
        self._delivery.senders[key] = account.sender
        return account

    async def _run(self, key: _Key, account: _Account) -> None:
        adapter, sender = account.adapter, account.sender
        if adapter is None or sender is None:
            return
        name = "/".join(key)
        try:
            with account.scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(keep_running, sender.run, f"channel {name} send")
                    tasks.start_soon(receive, adapter, partial(self._take, account))
        finally:
            account.is_running = False
            account.ended.set()

    async def _take(self, account: _Account, message: InboundMessage) -> None:
        await self._inbox(message)
        account.last_inbound_at = self._hosts.clock.now_ms()

    def reports(self) -> list[AccountReport]:
        """Returns the reports of all accounts: connected, disabled, incomplete, and of plugins."""
        reports: list[AccountReport] = []
        for name, section in self._config().channels.items():
            if name in PLATFORMS:
                platform = PLATFORMS[name]
                reports += [self._report(platform, account, section) for account in section.names]
        reported = {(report.channel, report.account) for report in reports}
        for (channel, account), sender in self._delivery.senders.items():
            if (channel, account) not in reported:
                reports.append(
                    AccountReport(
                        channel,
                        account,
                        channel,
                        self._state(sender.adapter),
                        is_configured=False,
                        offers=capabilities(sender.adapter),
                        webhook=_webhook(sender.adapter),
                    )
                )
        return reports

    def _report(self, platform: Platform, name: AccountId, section: ChannelConfig) -> AccountReport:
        account = self._accounts.get((ChannelId(platform.name), name))
        if account is None:
            return AccountReport(
                platform.name,
                name,
                platform.label,
                _idle(platform, section, name),
                is_enabled=False,
            )
        state = self._redacted(account.failure or AccountState())
        if account.adapter is not None and account.failure is None:
            state = self._state(account.adapter)
        return AccountReport(
            platform.name,
            name,
            platform.label,
            state,
            last_inbound_at=account.last_inbound_at,
            offers=capabilities(account.adapter) if account.adapter else NO_CAPABILITIES,
            webhook=_webhook(account.adapter),
        )

    async def probe(self, channel: str, account: str) -> AccountState:
        """Returns the state of an account, after a request to the platform if possible."""
        adapter = self.adapter(channel, account)
        if isinstance(adapter, Probes):
            with anyio.move_on_after(PROBE_SECONDS):
                return self._redacted(await adapter.probe())
            message = f"The platform did not answer in {PROBE_SECONDS:g} s."
            return AccountState(ConnectionState.RETRYING, message)
        return self._state(adapter) if adapter else AccountState(ConnectionState.STOPPED)

    def _state(self, adapter: ChannelAdapter) -> AccountState:
        return self._redacted(account_state(adapter))

    def _redacted(self, state: AccountState) -> AccountState:
        """Returns a state without secrets, which an error of a platform may contain."""
        return replace(state, message=self._hosts.redact(state.message))

    def restart(self, channel: str, account: str) -> None:
        """Connects an account again.

        Raises:
            KeyError: the configuration has no such account.
        """
        key = (ChannelId(channel), AccountId(account))
        if key not in self._configured():
            raise KeyError(f"{channel}/{account}")
        self._restarts.add(key)
        self._changed.set()

    def adapter(self, channel: str, account: str) -> ChannelAdapter | None:
        """Returns the adapter of an account; None when it has none."""
        sender = self._delivery.senders.get((ChannelId(channel), AccountId(account)))
        return sender.adapter if sender else None

    def parts(self, to: ReplyTo, text: str) -> list[str]:
        """Cuts a text into parts within the limit of the platform."""
        return self._delivery.parts(to, text)

    def wake(self, to: ReplyTo) -> None:
        """Wakes the account's sender, since its outbox has a new row."""
        self._delivery.wake(to)


def open_sender(  # noqa: PLR0913, PLR0917 - the parts of a sender, bound with `partial`
    settings: Settings,
    store: Store,
    clock: Clock,
    reach: Callable[[str], None],
    hooks: Hooks,
    wake_other: Callable[[ReplyTo], None],
    redact: Callable[[str], str],
    adapter: ChannelAdapter,
) -> Sender:
    """Returns the sender of an account's outbox."""

    def fallback() -> UnknownDelivery:
        return settings.config.messages.delivery.unknown

    def owner() -> ReplyTo | None:
        return settings.config.messages.delivery.owner

    return Sender(adapter, store, clock, reach, hooks, fallback, owner, wake_other, redact)


class StoreCursor(Struct, frozen=True):
    """Implements `sdk.channel_host.Cursor` in the state database."""

    store: Store
    channel: str
    account: str

    async def read(self, name: str) -> str:
        """Returns a value; empty for a missing one."""
        return await self.store.read(
            lambda reader: channel_state.read(reader, self.channel, self.account, name)
        )

    async def write(self, name: str, value: str) -> None:
        """Stores a value; returns after the COMMIT."""
        await self.store.write(
            lambda unit: channel_state.write(unit, self.channel, self.account, name, value)
        )


class SenderReports(Struct, frozen=True):
    """Implements `sdk.channel_host.Reports` by the sender of the account."""

    delivery: Senders
    key: _Key

    async def refused(self, nonce: str, reason: str) -> bool:
        """Records that a part was not delivered after all."""
        sender = self.delivery.senders.get(self.key)
        return sender is not None and await sender.report_refused(nonce, reason)


class AccountHosts(Struct, frozen=True):
    """Parts of the gateway that accounts need."""

    clock: Clock
    store: Store
    commands: CommandTable
    skills: SkillCatalogue
    config: Callable[[], Config]
    redact: Callable[[str], str]
    """Returns a text with its secrets replaced."""

    def adapter(
        self,
        platform: Platform,
        account: AccountId,
        settings: ChannelAccount,
        reports: SenderReports,
    ) -> ChannelAdapter:
        """Opens and returns the adapter of an account."""
        table, skills = self.commands, self.skills
        menu = partial(channel_menu.menu_of, self.config, table, skills, platform.name)
        cursor = StoreCursor(self.store, platform.name, account)
        key = self.config().state_dir / FOLDER / platform.name / f"{account}.key"
        vault = channel_vault.StoreVault(self.store, platform.name, account, key)
        host = channel_host.ChannelHost(account, self.clock, cursor, reports, menu, vault=vault)
        adapter: ChannelAdapter = platform.load("adapter:open_account")(settings, host)
        return adapter


def _webhook(adapter: ChannelAdapter | None) -> str:
    """Returns the path for posts to an account; empty for an account without posts."""
    if not isinstance(adapter, TakesPosts):
        return ""
    return f"/channels/{adapter.channel}/{adapter.account}"


def _idle(platform: Platform, section: ChannelConfig, name: AccountId) -> AccountState:
    """Returns the state of an account that is not connected, with its cause."""
    settings = section.account(name)
    if settings is None or not settings.is_configured:
        message = "The configuration lacks the credentials of this account."
        remedy = f"Run `skerry channels login {platform.name} --account {name}`."
        return AccountState(ConnectionState.NEEDS_LOGIN, message, remedy)
    message = "The account is switched off (enabled: false)."
    return AccountState(ConnectionState.STOPPED, message, "Set `enabled` to true.")
