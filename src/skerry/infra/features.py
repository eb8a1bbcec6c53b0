"""Lists the features of the gateway; their code is in `skerry.features.<name>`.

No other module outside the folder of a feature names it. The kernel imports a module of a feature
when it is needed: `plugin` at the start, `cli` for a command, `config` and `tables` where the entry
declares them.
"""

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any


class Feature:
    """One feature, described without importing its modules."""

    __slots__ = ("cli", "command", "name", "registers", "sections", "tables")

    def __init__(
        self,
        name: str,
        cli: tuple[str, str] | None = None,
        *,
        command: str = "",
        registers: bool = True,
        sections: Mapping[str, str] = MappingProxyType({}),
        tables: bool = False,
    ) -> None:
        self.name = name
        self.cli = cli
        """Group in the help and help text of its command, whose parser `cli.add` builds."""
        self.command = command or name
        """Name of the command: `skerry <command>`."""
        self.registers = registers
        """True when a start calls `plugin.register`; a feature may have a command only."""
        self.sections = sections
        """Classes in module `config`, by the path of their section of the configuration file, such
        as `tools.web.search`."""
        self.tables = tables
        """True when `tables.STEPS` creates tables of the state database, named `<name>...`."""

    def load(self, path: str) -> Any:
        """Imports `module:attribute`, relative to the feature's package, and returns it."""
        module, _, attribute = path.partition(":")
        return getattr(import_module(f"skerry.features.{self.name}.{module}"), attribute)


class WireFormat(Feature):
    """A wire format of model APIs; its `plugin.register` is called at the first use by a model."""

    __slots__ = ("api",)

    def __init__(self, api: str) -> None:
        super().__init__(api.replace("-", "_"), registers=False)
        self.api = api
        """Name in the configuration; the folder has it with underscores."""


class CommandExtension(Feature):
    """A feature whose `cli.add` adds subcommands to the command of another feature."""

    __slots__ = ()

    def __init__(self, name: str, command: str, sections: Mapping[str, str]) -> None:
        super().__init__(name, command=command, registers=False, sections=sections)


FEATURES = (
    Feature("chat", ("talk", "talk to an agent in the terminal"), registers=False),
    Feature(
        "agent_run",
        ("talk", "send one message and print the answer, for scripts"),
        command="agent",
        registers=False,
    ),
    Feature("sessions", ("talk", "list, read, name, delete and restore conversations")),
    Feature(
        "fences",
        ("its state", "list and trust files that a prompt includes as data only"),
        command="files",
    ),
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
    Feature("logs", ("the gateway", "print the log of the gateway, running or not")),
    Feature("update", ("the gateway", "check for a newer version"), registers=False),
    Feature(
        "doctor",
        ("the gateway", "check this installation and print remedies"),
        registers=False,
    ),
    Feature("service", ("the gateway", "keep the gateway running as a systemd user service")),
    Feature("prompt", ("what it uses", "show the prompt of a conversation")),
    Feature("config", ("what it uses", "show, change and check the configuration")),
    Feature("plugins", ("what it uses", "list, install, switch and create plugins")),
    Feature(
        "hooks",
        ("what it uses", "list, enable and disable programs that run at events"),
        registers=False,
    ),
    Feature("models", ("what it uses", "show and choose the model")),
    Feature("embedded_model"),
    Feature(
        "credentials",
        ("what it uses", "add, list and remove credentials of model providers"),
        command="auth",
    ),
    Feature(
        "devices", ("people and platforms", "approve, list and revoke devices that may connect")
    ),
    Feature(
        "channels", ("people and platforms", "add, show and remove accounts on chat platforms")
    ),
    Feature(
        "message",
        ("people and platforms", "send messages, polls and reactions over chat platforms"),
        registers=False,
    ),
    Feature("pairing", ("people and platforms", "approve and refuse senders of chat platforms")),
    Feature("routing", ("people and platforms", "explain which agent answers a conversation")),
    Feature("audit", ("what agents may do", "show and verify the log of decisions")),
    Feature(
        "approvals", ("what agents may do", "allow and deny tool calls that wait for a person")
    ),
    Feature(
        "net", ("what agents may do", "check and fetch addresses as agents do"), registers=False
    ),
    Feature(
        "tools",
        ("what agents may do", "list the tools of an agent, and explain who may use each"),
    ),
    Feature("exec", ("what agents may do", "show which commands of agents run without a question")),
    Feature(
        "mcp",
        ("what agents may do", "add and check servers of the Model Context Protocol"),
        sections={"mcp": "McpConfig"},
        tables=True,
    ),
    Feature("guard", ("what agents may do", "examine and fence text from others"), registers=False),
    Feature(
        "relayer",
        ("what it uses", "serve an encrypted memory that MemWal clients use"),
        registers=False,
    ),
    Feature(
        "sandbox", ("what agents may do", "test and explain the sandbox in which commands run")
    ),
    Feature("web", sections={"tools.web.search": "WebSearchConfig"}),
    Feature("browser", sections={"browser": "BrowserConfig"}),
    Feature("transcription"),
    WireFormat("openai-completions"),
    WireFormat("openai-responses"),
    WireFormat("anthropic-messages"),
    WireFormat("google-generative-ai"),
    Feature(
        "files",
        ("what agents may do", "undo what agents changed in files"),
        command="undo",
    ),
    Feature("session_tools", tables=True),
    Feature(
        "webhooks",
        ("automation", "list webhooks, and show the run that a post starts"),
        tables=True,
    ),
    Feature(
        "openai_api", sections={"gateway.http": "HttpConfig", "gateway.tools": "HttpToolsConfig"}
    ),
    Feature(
        "subagents",
        ("automation", "list, address and stop agents that agents have started"),
        tables=True,
    ),
    Feature(
        "security",
        ("what agents may do", "find settings and file modes that expose this installation"),
        registers=False,
    ),
    Feature("agents"),
    Feature(
        "nodes",
        sections={"canvasHost": "CanvasHostConfig", "gateway.nodes": "NodesConfig"},
    ),
    Feature("skills", ("what it uses", "list, search, install and publish skills")),
    CommandExtension("skill_registry", "skills", {"skills.registry": "SkillRegistryConfig"}),
    Feature("stubs"),
    Feature("markdown"),
    Feature("status"),
    Feature("queue"),
    Feature("replies"),
    Feature("retention"),
    Feature("system_events"),
    Feature(
        "heartbeat",
        ("automation", "show, enable and disable the heartbeats of agents"),
        tables=True,
    ),
    Feature(
        "cron",
        ("automation", "add, list and run jobs at times of a schedule"),
        tables=True,
    ),
)

WIRE_FORMATS = {feature.api: feature for feature in FEATURES if isinstance(feature, WireFormat)}
"""Wire formats by their values of `models.providers.<name>.api`."""
