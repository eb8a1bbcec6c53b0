"""Modules that only a used browser needs."""

from typing import TYPE_CHECKING

from skerry.infra.late import late

if TYPE_CHECKING:
    from skerry.features.browser import actions as actions
    from skerry.features.browser import browsers as browsers
    from skerry.features.browser import cdp as cdp
    from skerry.features.browser import config as config
else:
    __getattr__ = late(__package__)
