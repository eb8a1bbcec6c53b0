"""The hook `boot-md`: runs BOOT.md of each workspace once at each start of the gateway."""

import logging
from typing import Final

import anyio.to_thread

from skerry.config.hooks import BOOT_MD
from skerry.config.root import Config
from skerry.model.errors import SkerryError
from skerry.model.ids import AgentId, RunId, SessionKey
from skerry.model.origin import Origin
from skerry.model.run import Purpose, RunRequest
from skerry.policy.file_records import FileRecords
from skerry.runtime.dispatcher import Dispatch
from skerry.workspace.prompt_files import BOOT, cut, read_text

logger = logging.getLogger(__name__)

SCOPE: Final = ("boot",)
"""Scope of the session of these runs: `agent:<agent>:boot`."""
_PROMPT: Final = (
    "The gateway has just started. Do what your owner wrote for that, once. When nobody has to be"
    " told of it, your whole reply is NO_REPLY.\n\n"
)


async def boot(dispatch: Dispatch, config: Config, started_ms: int) -> list[RunId]:
    """Starts a run for each agent with a checklist in BOOT.md; returns the ids of the runs.

    The id of a run contains the time of the start, so that repeated calls start it once. An agent
    whose run of an earlier start is still active gets no other.
    """
    if not config.hooks.internal.takes_part(BOOT_MD):
        return []
    begun = []
    records = dispatch.runtime.records
    for agent in config.agents.ids:
        key = SessionKey(agent, SCOPE)
        text = await anyio.to_thread.run_sync(_checklist, config, agent, records)
        if not text or dispatch.active(key):
            continue
        run_id = RunId(f"boot-{agent}-{started_ms}")
        request = RunRequest(run_id, key, text, origin=Origin.BOOT, purpose=Purpose.BOOT)
        try:
            await dispatch.submit(request)
        except SkerryError:
            logger.exception("BOOT.md of agent %s was not run", agent)
            continue
        begun.append(run_id)
    return begun


def _checklist(config: Config, agent: AgentId, records: FileRecords) -> str:
    """Returns the prompt for the model; empty for a file of headings and comments only."""
    file = read_text(config.workspace(agent), BOOT, records)
    if file is None:
        return ""
    if file.problem:
        logger.warning("BOOT.md of agent %s is not read: %s", agent, file.problem)
        return ""
    if file.doubt:
        logger.warning(
            "BOOT.md of agent %s was not run: %s. Write it anew, by hand elsewhere or in a"
            " conversation with nobody else's words.",
            agent,
            file.doubt,
        )
        return ""
    lines = [line.strip() for line in file.text.splitlines()]
    if all(not line or line.startswith(("#", "<!--")) for line in lines):
        return ""
    return _PROMPT + cut(BOOT, file.text, config.agents.defaults.bootstrap_max_chars)
