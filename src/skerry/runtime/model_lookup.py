"""Lookup of a model by `provider/model`, by its id alone, or by its alias."""

from skerry.config.root import Config
from skerry.ports.model import Models


async def names(models: Models, config: Config) -> dict[str, str]:
    """Returns the full name of each model that can be used, by what it may be called.

    What it may be called stands there in small letters. Of two models with one id the first counts.
    """
    found: dict[str, str] = {}
    refs = {one.ref.lower(): one.ref for one in await models.listing()}
    for ref in refs.values():
        found.setdefault(ref.partition("/")[2].lower(), ref)
    for ref, one in config.agents.defaults.models.items():
        if one.alias and ref.lower() in refs:
            found[one.alias.lower()] = refs[ref.lower()]
    return found | refs


async def named(models: Models, config: Config, word: str) -> str | None:
    """Returns the full name of the model that can be used and is called `word`."""
    return (await names(models, config)).get(word.lower())
