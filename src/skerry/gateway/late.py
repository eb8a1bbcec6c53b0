"""Modules that a start of the gateway does not need."""

from typing import TYPE_CHECKING

from skerry.infra.late import late

if TYPE_CHECKING:
    from skerry.gateway import connection as connection
    from skerry.gateway import dispatch as dispatch
    from skerry.gateway import html as html
    from skerry.gateway import plugin_http as plugin_http
    from skerry.gateway.methods import answer_pictures as answer_pictures
    from skerry.gateway.methods import subscriptions as subscriptions
else:
    __getattr__ = late(
        __package__,
        answer_pictures="skerry.gateway.methods.answer_pictures",
        subscriptions="skerry.gateway.methods.subscriptions",
    )
