"""Check of `skerry doctor` for folders that cannot be used as skills."""

from functools import partial

import anyio.to_thread

from skerry.model.skill import SkillFault
from skerry.ports.checks import Check, Level
from skerry.sdk.features import Installation, bundled_skills
from skerry.workspace.skill_catalogue import SkillCatalogue


async def broken_skills(installation: Installation) -> list[Check]:
    """Returns a warning for each folder that cannot be used as a skill of an agent."""
    config = installation.config
    if config is None:
        return []
    catalogue = SkillCatalogue(installation.environ, bundled=bundled_skills())
    faults = list[SkillFault]()
    for agent in config.agents.ids:
        load = partial(catalogue.load, config, agent, every=True)
        faults += [
            fault for fault in (await anyio.to_thread.run_sync(load)).faults if fault not in faults
        ]
    return [
        Check("skills", Level.WARNING, fault.problem, fault.remedy or "Repair or remove it.")
        for fault in faults
    ]
