"""The parsers of `skerry tools`."""

from argparse import ArgumentParser

from skerry.cli.options import Add, command, output

_RUN = "skerry.features.tools.cli_run"
ORIGINS = ("owner", "known", "stranger", "boot", "tool", "web", "memory", "plugin")
"""Values of `model.origin.Origin`, repeated so that help needs no import."""
FOREIGN = ("mcp", "file")
"""Further names for `--taint`: text of an MCP server, and of a file that a tainted run wrote.
Both reach the model as text of a tool."""


def add(tools: ArgumentParser) -> None:
    """Adds the commands of `skerry tools`."""
    add = tools.add_subparsers(metavar="COMMAND", title="commands").add_parser
    _explain(add)
    listed = command(add, "list", _RUN, "list the tools and the decision about each")
    _situation(listed)
    output(listed)


def _explain(add: Add) -> None:
    explain = command(add, "explain", _RUN, "show the decision about a tool and its steps")
    explain.add_argument("tool", metavar="TOOL", help="name of the tool")
    _situation(explain)
    explain.add_argument(
        "--host", choices=("sandbox", "gateway", "node"), help="host that the call requests"
    )
    explain.add_argument(
        "--path", metavar="PATH", help="file of the call, relative to the workspace"
    )
    output(explain)


def _situation(parser: ArgumentParser) -> None:
    parser.add_argument("--agent", metavar="ID", help="agent (default: the default agent)")
    parser.add_argument(
        "--session", default="main", metavar="KEY", help="conversation (default: main)"
    )
    parser.add_argument(
        "--provider", default="", metavar="NAME", help="model provider, or provider/model"
    )
    parser.add_argument(
        "--origin", choices=ORIGINS, default="owner", help="origin of the request (default: owner)"
    )
    parser.add_argument(
        "--sender", action="append", default=[], metavar="KEY", help="sender, such as id:42"
    )
    parser.add_argument(
        "--channel", default="", metavar="NAME", help="chat platform, if the session has none"
    )
    parser.add_argument(
        "--taint",
        action="append",
        default=[],
        choices=ORIGINS[1:] + FOREIGN,
        metavar="ORIGIN",
        help="origin of text from others in the conversation, such as web",
    )
