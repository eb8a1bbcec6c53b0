"""Answers /kindred TEXT with the proverb of the nearest meaning, found with an embedding model."""

from skerry.sdk.api import PluginApi
from skerry.sdk.commands import CommandCall

PROVERBS = (
    "A rolling stone gathers no moss.",
    "Many hands make light work.",
    "The early bird catches the worm.",
)


def register(api: PluginApi) -> None:
    """Registers the command; the texts do not leave this machine."""

    async def kindred(call: CommandCall) -> str:
        asked = await api.embeddings.embed([call.arguments], is_query=True, local_only=True)
        known = await api.embeddings.embed(PROVERBS, local_only=True)
        relevance, proverb = max(
            (api.embeddings.relevance(known.space, vector, asked.vectors[0]), proverb)
            for vector, proverb in zip(known.vectors, PROVERBS, strict=True)
        )
        return f"{proverb} ({relevance:.0%}, {known.space})"

    api.register_command(
        "kindred", kindred, description="finds a proverb that is near", accepts_arguments=True
    )
