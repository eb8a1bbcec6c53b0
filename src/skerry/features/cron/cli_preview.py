"""`skerry cron preview`: computes the times of an expression without a gateway."""

from argparse import Namespace
from datetime import UTC, datetime

from skerry.cli.render import show, show_json
from skerry.features.cron.schedule import moment, preview, zone
from skerry.infra.clock import SystemClock


def run(arguments: Namespace) -> int:
    """Prints the times; returns the exit code."""
    start = moment(arguments.start) if arguments.start else SystemClock().now_ms()
    times = preview(arguments.expr, arguments.tz, start, arguments.count)
    instants = [datetime.fromtimestamp(time / 1000, UTC) for time in times]
    if arguments.json:
        show_json([f"{instant:%Y-%m-%dT%H:%M:%SZ}" for instant in instants])
        return 0
    time_zone = zone(arguments.tz)
    for instant in instants:
        local = instant.astimezone(time_zone)
        show(f"{instant:%Y-%m-%dT%H:%M:%SZ}  {local:%a %Y-%m-%d %H:%M:%S %Z}")
    return 0
