"""Reports on plugins without running them, for commands where no gateway runs."""

from msgspec.structs import replace

from skerry.config.root import Config
from skerry.model.errors import PluginError
from skerry.plugins.discovery import candidates
from skerry.plugins.slots import missing_slots, off
from skerry.ports.plugins import PluginReport, PluginStatus


def inspect(config: Config) -> list[PluginReport]:
    """Returns the state that each plugin would have, as far as it is known without running it."""
    reports: list[PluginReport] = []
    for candidate in candidates(config, installed=True):
        report = PluginReport(candidate.id, str(candidate.path), PluginStatus.DISABLED)
        try:
            reason = candidate.refusal(config)
            if reason is None:
                package = candidate.package(config)
                package.compile()
                report = replace(report.but(PluginStatus.LOADED, ""), sha256=package.sha256)
            else:
                report = off(config, report, reason)
        except PluginError as error:
            report = report.but(PluginStatus.FAILED, str(error), error.remedy)
        except (SyntaxError, ValueError) as error:
            message = f"{candidate.path} is not Python: {error}"
            report = report.but(PluginStatus.FAILED, message, "Correct it.")
        reports.append(report)
    return reports + missing_slots(config, {report.id for report in reports})
