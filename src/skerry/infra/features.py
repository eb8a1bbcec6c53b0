"""Lists the features of the gateway, one line each; `skerry.features.<name>` has the rest.

No other module outside the folder of a feature names it. The kernel imports a part of a feature
when that part is used: `plugin` at the start, `cli` for a command, `config` and `tables` where the
line says that there are some.
"""

from importlib import import_module
from typing import Any


class Feature:
    """One feature: what must be known of it before any of its modules is imported."""

    __slots__ = ("cli", "command", "config", "name", "registers", "tables")

    def __init__(
        self,
        name: str,
        cli: tuple[str, str] | None = None,
        *,
        command: str = "",
        registers: bool = True,
        config: str = "",
        tables: bool = False,
    ) -> None:
        self.name = name
        self.cli = cli
        """The group of the help and the text of its command, which `cli.add` completes."""
        self.command = command or name
        self.registers = registers
        """True when `plugin.register` is called; a feature may consist of a command alone."""
        self.config = config
        """The class in `config` of the section `<name>` of the configuration file."""
        self.tables = tables
        """True when `tables.STEPS` builds tables of the state database; all begin with `<name>`."""

    def load(self, path: str) -> Any:
        """Returns `module:attribute` of the feature, which is imported by this."""
        module, _, attribute = path.partition(":")
        return getattr(import_module(f"skerry.features.{self.name}.{module}"), attribute)


FEATURES = (
    Feature("memory", ("its state", "search, read and edit the memory of agents")),
    Feature("usage", ("its state", "show the tokens and costs of model calls")),
    Feature("outbox", ("its state", "list, show, retry and drop undelivered replies")),
    Feature("backup", ("its state", "make, list, check and restore backups of the database")),
    Feature(
        "openclaw",
        ("its state", "import an installation of another program"),
        command="import",
        registers=False,
    ),
    Feature(
        "doctor",
        ("the gateway", "check this installation and print remedies"),
        registers=False,
    ),
    Feature("service", ("the gateway", "keep the gateway running as a systemd user service")),
    Feature("models", ("what it uses", "show and choose the model")),
    Feature("credentials", ("what it uses", "credentials of model providers"), command="auth"),
    Feature("devices", ("what it uses", "approve, list and revoke devices that may connect")),
    Feature("channels", ("what it uses", "add, show and remove accounts on chat platforms")),
    Feature(
        "message",
        ("what it uses", "send messages, polls and reactions over chat platforms"),
        registers=False,
    ),
    Feature("pairing", ("what it uses", "approve and refuse senders of chat platforms")),
    Feature("routing", ("what it uses", "explain which agent answers a conversation")),
    Feature("audit", ("what it uses", "show and verify the log of decisions")),
    Feature("approvals", ("what it uses", "allow and deny tool calls that wait for a person")),
    Feature("net", ("what it uses", "check and fetch addresses as agents do"), registers=False),
    Feature(
        "tools",
        ("what it uses", "list the tools of an agent, and explain who may use each"),
        registers=False,
    ),
    Feature("exec", ("what it uses", "tell which commands of agents run unasked")),
    Feature("guard", ("what it uses", "examine and fence text of others"), registers=False),
    Feature(
        "relayer",
        ("what it uses", "serve an encrypted memory that MemWal clients use"),
        registers=False,
    ),
    Feature("sandbox", ("what it uses", "test and explain the sandbox in which commands run")),
    Feature("web"),
    Feature(
        "files",
        ("what it uses", "undo what agents changed in files"),
        command="undo",
    ),
    Feature("session_tools"),
    Feature(
        "webhooks",
        ("what it uses", "list webhooks, and show what a post becomes"),
        tables=True,
    ),
    Feature(
        "subagents",
        ("what it uses", "list, address and stop agents that agents have started"),
        tables=True,
    ),
    Feature(
        "security",
        ("what it uses", "find settings and file modes that open this installation"),
        registers=False,
    ),
    Feature("config"),
    Feature("prompt"),
    Feature("queue"),
    Feature("replies"),
    Feature("retention"),
    Feature("sessions"),
    Feature(
        "heartbeat",
        ("what it uses", "checks that agents do by themselves"),
        tables=True,
    ),
    Feature(
        "cron",
        ("what it uses", "jobs that run at times of a schedule"),
        tables=True,
    ),
)
