"""The parser of `skerry cron`."""

from argparse import ArgumentParser

from skerry.cli.options import Add, command, output, reach, subcommands, whole

_RUN = "skerry.features.cron.cli_run"
_PREVIEW = "skerry.features.cron.cli_preview"
MAX_LISTED = 10_000


def add(cron: ArgumentParser) -> None:
    """Adds the commands of `skerry cron`."""
    add = subcommands(cron)
    new = command(add, "add", _RUN, "add a job")
    new.add_argument("--name", required=True, help="its name")
    _about(new)
    changed = command(add, "edit", _RUN, "change a job")
    changed.add_argument("job", metavar="JOB", help="its id, or the beginning of the id")
    changed.add_argument("--name", help="its name")
    _about(changed)
    listing = command(add, "list", _RUN, "list the jobs, with their next and last runs")
    listing.add_argument("--all", action="store_true", help="also disabled jobs")
    status = command(add, "status", _RUN, "show the state of the scheduler, and the next due time")
    for parser in (new, changed, listing, status, *_of_job(add)):
        output(reach(parser))
    _preview(add)


def _of_job(add: Add) -> list[ArgumentParser]:
    """Returns the parsers of the commands for one job."""
    parsers = [
        command(add, name, _RUN, text)
        for name, text in (
            ("show", "show a job"),
            ("remove", "remove a job; its run log is kept"),
            ("enable", "enable a job"),
            ("disable", "disable a job"),
            ("run", "run a job now"),
        )
    ]
    for parser in parsers:
        parser.add_argument("job", metavar="JOB", help="its id, or the beginning of the id")
    parsers[-1].add_argument("--due", action="store_true", help="only when the job is due")
    runs = command(add, "runs", _RUN, "list the ended runs of a job, or of all jobs")
    runs.add_argument("job", nargs="?", metavar="JOB", help="its id, or the beginning of the id")
    runs.add_argument(
        "--limit",
        type=whole(1, 200),
        default=20,
        metavar="N",
        help="maximum number of runs (default: 20)",
    )
    return [*parsers, runs]


def _preview(add: Add) -> None:
    text = "print the next times of a cron expression; needs no gateway"
    parser = output(command(add, "preview", _PREVIEW, text))
    parser.add_argument("expr", metavar="EXPR", help="such as '0 7 * * 1-5'")
    parser.add_argument("--tz", metavar="ZONE", help="IANA name (default: of this machine)")
    parser.add_argument(
        "--from", dest="start", metavar="ISO", help="after this time (default: now)"
    )
    parser.add_argument(
        "--count",
        type=whole(1, MAX_LISTED),
        default=10,
        metavar="N",
        help="number of times (default: 10)",
    )


def _about(parser: ArgumentParser) -> None:
    """Adds the options that describe a job."""
    when = parser.add_argument_group("schedule").add_mutually_exclusive_group()
    when.add_argument(
        "--at", metavar="TIME", help="once: an ISO 8601 time, or from now such as 20m"
    )
    when.add_argument("--every", metavar="SPAN", help="interval, such as 10m or 6h")
    when.add_argument("--cron", metavar="EXPR", help="five fields, or six with the second first")
    parser.add_argument(
        "--tz", metavar="ZONE", help="time zone of --cron (default: of the gateway's machine)"
    )
    late = parser.add_mutually_exclusive_group()
    late.add_argument("--stagger", metavar="SPAN", help="maximum delay of --cron")
    late.add_argument("--exact", action="store_true", help="no delay at the top of the hour")
    payload = parser.add_argument_group("what it does").add_mutually_exclusive_group()
    payload.add_argument("--message", metavar="TEXT", help="message that starts an isolated run")
    payload.add_argument("--system-event", metavar="TEXT", help="text for the main conversation")
    parser.add_argument("--model", metavar="REF", help="model of its runs")
    parser.add_argument("--thinking", metavar="LEVEL", help="reasoning effort of its runs")
    parser.add_argument("--timeout-seconds", type=float, metavar="S", help="time limit of a run")
    parser.add_argument("--agent", metavar="ID", help="agent (default: the default agent)")
    parser.add_argument("--session", metavar="KEY", help="conversation of --system-event")
    parser.add_argument(
        "--wake", choices=("now", "next-heartbeat"), help="when --system-event is read"
    )
    to = parser.add_argument_group("its reply").add_mutually_exclusive_group()
    to.add_argument("--announce", action="store_true", help="to the owner's last chat (default)")
    to.add_argument("--no-deliver", action="store_true", help="only to the log")
    to.add_argument("--webhook", metavar="URL", help="post the end of each run to this address")
    parser.add_argument("--channel", metavar="NAME", help="platform of --to")
    parser.add_argument("--to", metavar="ID", help="chat that receives the reply")
    parser.add_argument("--account", metavar="ID", help="account of the platform")
    keep = parser.add_mutually_exclusive_group()
    keep.add_argument(
        "--delete-after-run",
        action="store_true",
        default=None,
        help="remove the job after its run (default for --at)",
    )
    keep.add_argument(
        "--keep-after-run",
        action="store_false",
        dest="delete_after_run",
        help="keep and disable it",
    )
    parser.add_argument("--description", metavar="TEXT", help="note for people")
    parser.add_argument("--disabled", action="store_true", help="do not start it yet")
