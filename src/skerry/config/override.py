"""A configuration with temporary values instead of those of its file."""

from collections.abc import Mapping
from typing import Any

from skerry.config.check import check
from skerry.config.load import Loaded
from skerry.config.paths import MISSING, KeyPath, replaced, show_key_path, within
from skerry.config.redact import JSON
from skerry.config.references import refers
from skerry.config.remote_write_policy import ALLOWED
from skerry.config.root import Config
from skerry.model.errors import ConfigProtectedError


def overridden(loaded: Loaded, values: Mapping[KeyPath, JSON]) -> Config:
    """Returns the configuration with the values at their key paths; the file is not changed.

    Raises:
        ConfigProtectedError: clients may not change a key, or a value has a reference.
        ConfigInvalidError: the resulting configuration is not valid.
    """
    if not values:
        return loaded.config
    refused = [
        show_key_path(key_path)
        for key_path, value in values.items()
        if not any(within(key_path, pattern) for pattern in ALLOWED) or refers(value)
    ]
    path = loaded.config.path
    if refused:
        raise ConfigProtectedError(str(path), refused, "Edit the file instead.")
    tree: Any = loaded.expanded.tree
    for key_path, value in values.items():
        tree = replaced(tree, key_path, MISSING if value is None else value)
    config, _ = check(tree, state_dir=loaded.config.state_dir, path=path)
    return config.model_copy(update={"included": loaded.config.included})
