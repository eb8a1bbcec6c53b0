"""A configuration with other values than its file has, for a while."""

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
    """Returns the configuration with the values in their places.

    Raises:
        ConfigProtectedError: a place is not for clients, or a value refers to something outside.
        ConfigInvalidError: the whole makes no sense.
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
        raise ConfigProtectedError(str(path), refused, "It is for a person at the file alone.")
    tree: Any = loaded.expanded.tree
    for key_path, value in values.items():
        tree = replaced(tree, key_path, MISSING if value is None else value)
    config, _ = check(tree, state_dir=loaded.config.state_dir, path=path)
    return config.model_copy(update={"included": loaded.config.included})
