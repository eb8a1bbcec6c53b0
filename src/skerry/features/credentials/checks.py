"""Check of `skerry doctor` for the credentials of model providers."""

from collections.abc import Iterable, Iterator, Mapping

from skerry.app.credential_files import Keeper, problem
from skerry.auth.credentials import refuse_in_workspace, vault_of
from skerry.config.root import Config
from skerry.infra.clock import SystemClock
from skerry.model.errors import CredentialError
from skerry.ports.checks import Check, Level
from skerry.sdk.features import Installation


async def profiles(installation: Installation) -> Iterable[Check]:
    """Returns the faults of the profiles of each agent, or their number."""
    if installation.config is None:
        return []
    return _profiles(installation.config, installation.environ)


def _profiles(config: Config, environ: Mapping[str, str]) -> Iterator[Check]:
    count = 0
    for agent in config.agents.ids:
        keeper = Keeper(config, environ, agent)
        try:
            refuse_in_workspace(config, vault_of(config, environ).directory)
            stored = keeper.profiles()
        except CredentialError as error:
            yield Check("credentials", Level.FAILURE, str(error), error.remedy)
            continue
        count += len(stored.profiles)
        for text in stored.problems:
            remedy = f"Repair {config.agent_dir(agent)}, or run skerry auth add."
            yield Check("credentials", Level.WARNING, f"{agent}: {text}.", remedy)
        for profile in stored.profiles.values():
            if fault := problem(profile, keeper, SystemClock().now_ms()):
                remedy = f"skerry auth add {profile.provider} --agent {agent}"
                yield Check("credentials", Level.WARNING, f"{agent}: {fault}", remedy)
    plural = "profile" if count == 1 else "profiles"
    yield Check("credentials", Level.OK, f"{count} {plural}; keys in other places need no profile")
