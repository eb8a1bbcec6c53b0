"""Modules that a start of the gateway does not need."""

from typing import TYPE_CHECKING

from skerry.infra.late import late

if TYPE_CHECKING:
    from skerry.app import channel_menu as channel_menu
    from skerry.app import channel_vault as channel_vault
    from skerry.app import commands as commands
    from skerry.app import trial as trial
    from skerry.plugins import folders as folders
    from skerry.plugins import loader as loader
    from skerry.plugins import skills as skills
    from skerry.runtime import recovery as recovery
    from skerry.sdk import channel_host as channel_host
    from skerry.store import backups as backups
    from skerry.tools import session_search as session_search
else:
    __getattr__ = late(
        __package__,
        backups="skerry.store.backups",
        channel_host="skerry.sdk.channel_host",
        folders="skerry.plugins.folders",
        loader="skerry.plugins.loader",
        skills="skerry.plugins.skills",
        recovery="skerry.runtime.recovery",
        session_search="skerry.tools.session_search",
    )
