"""A kitchen: a tool, a command, a gateway method and a hook in one plugin file."""

from pydantic import BaseModel, Field

from skerry.sdk.api import PluginApi
from skerry.sdk.commands import CommandCall
from skerry.sdk.hooks import PromptChange, PromptDraft
from skerry.sdk.methods import MethodCall
from skerry.sdk.tools import FunctionTool, ToolContext, ToolError


class BrewParams(BaseModel, extra="forbid"):
    """Parameters of the tool."""

    kind: str = Field(description="Which tea.", max_length=40)
    minutes: int = Field(default=3, ge=1, le=15, description="How long it draws.")


class StockParams(BaseModel, extra="forbid"):
    """The method has no parameters."""


def register(api: PluginApi) -> None:
    """Registers all parts."""
    stock = {"green": 2, "black": 1}

    async def brew(params: BrewParams, _: ToolContext) -> str:
        if not stock.get(params.kind):
            raise ToolError(f"There is no {params.kind} tea. Offer one of: {', '.join(stock)}.")
        stock[params.kind] -= 1
        return f"{params.kind} tea, ready in {params.minutes} minutes"

    async def tea(call: CommandCall) -> str:
        kind = call.arguments or "any"
        return f"{stock.get(kind, sum(stock.values()))} cups of {kind} tea are left."

    async def left(_params: StockParams, _call: MethodCall) -> dict[str, int]:
        return stock

    async def remind(_: PromptDraft) -> PromptChange:
        host = api.config.get("host", "nobody")
        return PromptChange(append_system_context=f"The kitchen is kept by {host}.")

    api.register_tool(FunctionTool("brew_tea", "Brew a cup of tea.", BrewParams, brew))
    api.register_command("tea", tea, description="says how much is left", accepts_arguments=True)
    api.register_gateway_method("stock", StockParams, left, scope="operator.read")
    api.hooks.before_prompt_build(remind)
