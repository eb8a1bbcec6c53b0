"""Building blocks of wire formats of model APIs; `ModelApi` is registered.

`StreamingCall` sends a request and reads its events; it handles limits, deadlines, secrets, errors
and tool calls that are written as text. A `ReplyBuilder` of the format turns events into a reply.
"""

from httpx2 import URL

from skerry.infra.http import HttpClient
from skerry.providers.failures import stream_failure
from skerry.providers.model_apis import ModelApi, bearer
from skerry.providers.retry import Downgrades, RetryingProvider, RetryPolicy, efforts, levels
from skerry.providers.streaming_call import Endpoint, ReplyBuilder, StreamingCall
from skerry.providers.text_filters import WrittenCalls, written_calls
from skerry.providers.wire_format import (
    NO_IMAGE,
    OWN_ID,
    AnswerLimit,
    EventText,
    Items,
    JoinedItems,
    Turns,
    count,
    decoded,
    is_own,
    parse_arguments,
)

__all__ = (
    "NO_IMAGE",
    "OWN_ID",
    "URL",
    "AnswerLimit",
    "Downgrades",
    "Endpoint",
    "EventText",
    "HttpClient",
    "Items",
    "JoinedItems",
    "ModelApi",
    "ReplyBuilder",
    "RetryPolicy",
    "RetryingProvider",
    "StreamingCall",
    "Turns",
    "WrittenCalls",
    "bearer",
    "count",
    "decoded",
    "efforts",
    "is_own",
    "levels",
    "parse_arguments",
    "stream_failure",
    "written_calls",
)
