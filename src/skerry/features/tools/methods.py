"""Method that lists the tools of an agent, with the policy's decision on each."""

from typing import Final

from msgspec.structs import replace

from skerry.features.tools.explain import ToolQuestion, outcome
from skerry.gateway.frames import Json
from skerry.gateway.method import Call, Method, Name, Params
from skerry.policy.tool_names import CORE, GROUPS


class ListParams(Params):
    """Parameters of `tools.list`: a conversation of the owner, by default the main one."""

    session_key: Name | None = None
    agent_id: Name | None = None


async def tools_list(call: Call, params: ListParams) -> Json:
    """Returns each tool with its description, and the decision for a run of the owner.

    `skerry tools list --origin` has the decisions for other people.
    """
    config = call.context.config()
    question = ToolQuestion(
        "", agent=call.agent(params.agent_id), session=params.session_key or "main"
    )
    rows: list[Json] = []
    for spec in sorted(call.context.tools(), key=lambda spec: spec.name):
        decision = outcome(config, replace(question, tool=spec.name))
        row: dict[str, Json] = {
            "tool": spec.name,
            "description": spec.description,
            "groups": sorted(group for group, names in GROUPS.items() if spec.name in names),
            "isPlugin": spec.name not in CORE,
            "decision": str(decision.effect),
            "rule": decision.rule,
            "reason": decision.reason,
        }
        rows.append(row)
    return {"tools": rows}


METHODS: Final = (Method("tools.list", ListParams, tools_list),)
