"""Expansion of the configuration file: merges included files and replaces references."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from skerry.config.env import with_vars
from skerry.config.include import Includes, included
from skerry.config.references import Substitution
from skerry.config.secret_values import Fetcher, unfetched
from skerry.config.source import Source
from skerry.model.errors import ConfigInvalidError, ConfigIssue

_PLAIN: Final = frozenset({"env", "secrets"})
"""Sections on which the references in other sections depend."""


@dataclass(frozen=True, slots=True)
class Expanded:
    """Content of a file after each of the two steps."""

    merged: dict[str, Any] = field(repr=False)
    """Tree with the included files, and unresolved references."""
    tree: dict[str, Any] = field(repr=False)
    """Tree with the included files, and the values of the references."""
    includes: Includes
    environ: Mapping[str, str] = field(repr=False)
    """The environment with the variables that the file adds."""
    used: Mapping[str, str] = field(repr=False)
    """Variables that the file refers to, with their values."""
    issues: tuple[ConfigIssue, ...] = ()
    """References that cannot be resolved."""

    @property
    def files(self) -> tuple[Path, ...]:
        """Returns the included files without duplicates."""
        return tuple(dict.fromkeys(file for _, file in self.includes.files))


def expand(read: Source, environ: Mapping[str, str], *, fetch: bool = False) -> Expanded:
    """Expands the file: merges included files and replaces references.

    With `fetch` it reads the files and runs the programs that provide secrets. Callers that check
    or show a file do not fetch: a file that a client proposes must not run programs.

    Raises:
        ConfigInvalidError: an included file cannot be read, or the tree is nested too deep.
    """
    try:
        merged, includes = included(read)
        section = Substitution({name: text for name, text in environ.items() if text})
        variables = section.value({"env": merged.get("env", {})}, secret=True)
        environment = with_vars(variables, environ)
        substitution = Substitution(
            environment, Fetcher(merged, environment) if fetch else unfetched
        )
        tree = substitution.value(
            {key: member for key, member in merged.items() if key not in _PLAIN}
        )
    except RecursionError:
        issue = ConfigIssue("", "it is nested too deep.", "Make it flatter.")
        raise ConfigInvalidError(str(read.path), [issue]) from None
    tree |= {key: member for key, member in merged.items() if key == "secrets"}
    if "env" in merged:
        tree["env"] = variables["env"]
    return Expanded(
        merged,
        tree,
        includes,
        environment,
        {**section.used, **substitution.used},
        (*section.issues, *substitution.issues),
    )
