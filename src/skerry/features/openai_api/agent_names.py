"""Agents as models: their names in requests and in the list (pure)."""

import re
from typing import Any, Final

from skerry.config.root import Config
from skerry.features.openai_api.api_errors import ApiError
from skerry.model.ids import AgentId, agent_id

PRODUCT: Final = "skerry"
_PREFIXES: Final = (PRODUCT, "openclaw")
_NAME: Final = re.compile(r"(?:(skerry|openclaw)(?:[:/](.+))?|agent[:/](.+))", re.IGNORECASE)
_DEFAULT: Final = "default"


def chosen_agent(config: Config, model: str) -> AgentId | None:
    """Returns the agent that a model's name means; None for the default agent.

    Raises:
        ApiError: 404, no agent has this name.
    """
    match = _NAME.fullmatch(model.strip())
    if match is None:
        raise _unknown(config, model)
    name = match[2] or match[3] or ""
    if not name:
        return None
    return known_agent(config, name, model)


def known_agent(config: Config, name: str, shown: str) -> AgentId | None:
    """Returns the id of a configured agent; None for the name `default`, unless an agent has it.

    Raises:
        ApiError: 404, no agent has this name.
    """
    agent = agent_id(name)
    if agent in config.agents.ids and name.strip().lower() == agent:
        return agent
    if name.strip().lower() == _DEFAULT:
        return None
    raise _unknown(config, shown)


def model_names(config: Config) -> list[str]:
    """Returns the names of all models: the default agent, then each agent by its names."""
    names = [f"{prefix}:{agent}" for agent in config.agents.ids for prefix in _PREFIXES]
    return [PRODUCT, *names]


def as_model(name: str, created_ms: int) -> dict[str, Any]:
    """Returns a model of the list."""
    created = created_ms // 1000
    return {"id": name, "object": "model", "created": created, "owned_by": PRODUCT}


def _unknown(config: Config, model: str) -> ApiError:
    names = ", ".join(f"{PRODUCT}:{agent}" for agent in config.agents.ids)
    message = f"The model {model[:100]!r} does not exist. Models: {PRODUCT}, {names}."
    return ApiError(404, message, code="model_not_found", param="model")
