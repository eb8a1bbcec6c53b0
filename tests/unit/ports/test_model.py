"""A conversation caches its wire forms, so that a turn encodes only new messages."""

from skerry.model.message import Message, TextBlock, ToolCall, Usage, user
from skerry.ports.model import History, ModelReply


class Count:
    """A wire form that records its messages."""

    def __init__(self) -> None:
        self.added: list[Message] = []

    def add(self, message: Message) -> None:
        self.added.append(message)

    def keep(self, count: int) -> None:
        del self.added[count:]


def test_a_form_takes_each_message_once_and_is_kept_by_its_name() -> None:
    history = History([user("a", 1)])
    form = history.form("x", Count)
    history.append(user("b", 2))
    assert history.form("x", Count) is form
    assert form.added == history.messages
    assert history.form("y", Count).added == history.messages


def test_a_form_takes_again_only_what_is_behind_a_message_that_was_put() -> None:
    history = History([user("a", 1), user("b", 1), user("c", 1)])
    form = history.form("x", Count)
    kept = form.added[0]
    history.put(1, user("B", 1))
    assert form.added == [kept]
    assert history.form("x", Count) is form
    assert form.added == history.messages


def test_a_reply_gives_its_text_and_its_calls() -> None:
    call = ToolCall("c", "read", {})
    reply = ModelReply((TextBlock("a"), call, TextBlock("b")), "toolUse", Usage())
    assert (reply.text, reply.tool_calls) == ("ab", (call,))


def test_a_changed_message_replaces_the_original() -> None:
    history = History([user("a", 1), user("b", 2), user("c", 3)])
    history.put(1, user("longer", 2))
    assert history.messages == [user("a", 1), user("longer", 2), user("c", 3)]
    assert history.ends == History(history.messages).ends
    assert history.form("y", Count).added == history.messages
