"""The parser of `skerry agent`."""

from argparse import ArgumentParser

from skerry.cli.options import filled, message, output, reach, session, timeout

_RUN = "skerry.features.agent_run.cli_run"


def add(agent: ArgumentParser) -> None:
    """Adds the options of `skerry agent`."""
    agent.set_defaults(module=_RUN)
    agent.add_argument(
        "-m",
        "--message",
        type=filled,
        required=True,
        metavar="TEXT",
        help="message; - reads stdin",
    )
    message(agent, "image for the model; repeatable")
    agent.add_argument(
        "--idempotency-key", metavar="K", help="key of the run; a repeat prints the first answer"
    )
    timeout(agent, "time limit of the run in seconds (default: agents.defaults.timeoutSeconds)")
    output(session(reach(agent)))
