"""The conversations in memory: the same as in the store, and read again when they are not."""

from pathlib import Path

from skerry.model import message
from skerry.model.ids import SessionId, SessionKey
from skerry.model.message import ImageBlock, UserMessage
from skerry.model.origin import Origin
from skerry.runtime.conversation import MAX_CACHED, MAX_CACHED_CHARS, ConversationCache
from skerry.store import Store, Unit, open_store, sessions

SESSION = SessionId("s1")


def _owners(text: str) -> message.UserMessage:
    return message.UserMessage((message.TextBlock(text),), 0, Origin.OWNER)


async def append(store: Store, *texts: str, session_id: SessionId = SESSION) -> None:
    def work(unit: Unit) -> None:
        key = SessionKey.parse(session_id)
        stored_id, tail = sessions.ensure(unit, key, session_id, 0)
        sessions.append(unit, stored_id, tail, "r", [_owners(text) for text in texts], 0)

    await store.write(work)


def texts(messages: list[message.Message]) -> list[str]:
    return [entry.text for entry in messages if isinstance(entry, message.UserMessage)]


async def test_a_conversation_is_read_up_to_the_new_message(tmp_path: Path) -> None:
    async with open_store(tmp_path / "s.sqlite") as store:
        await append(store, "a", "b", "c")
        conversation = await ConversationCache(store).get(SESSION, 3)
        assert (texts(conversation.history.messages), conversation.tail) == (["a", "b"], 2)


async def test_one_in_step_with_the_store_is_kept(tmp_path: Path) -> None:
    async with open_store(tmp_path / "s.sqlite") as store:
        await append(store, "a", "b")
        histories = ConversationCache(store)
        first = await histories.get(SESSION, 2)
        first.history.append(message.user("b", 0))
        first.tail = 2
        await append(store, "c")
        assert await histories.get(SESSION, 3) is first


async def test_one_out_of_step_is_read_again(tmp_path: Path) -> None:
    async with open_store(tmp_path / "s.sqlite") as store:
        await append(store, "a", "b", "c", "d")
        histories = ConversationCache(store)
        first = await histories.get(SESSION, 2)
        for before in (4, 3):  # it moved on without us; it is behind what we have
            conversation = await histories.get(SESSION, before)
            assert conversation is not first
            assert len(conversation.history.messages) == conversation.tail == before - 1


async def test_a_forgotten_one_is_read_again(tmp_path: Path) -> None:
    async with open_store(tmp_path / "s.sqlite") as store:
        await append(store, "a", "b")
        histories = ConversationCache(store)
        first = await histories.get(SESSION, 2)
        first.history.append(message.user("never stored", 0))
        histories.forget(SESSION)
        assert texts((await histories.get(SESSION, 2)).history.messages) == ["a"]


async def test_only_the_last_ones_used_are_kept(tmp_path: Path) -> None:
    async with open_store(tmp_path / "s.sqlite") as store:
        histories = ConversationCache(store)
        first = await histories.get(SESSION, 1)
        second = await histories.get(SessionId("s2"), 1)
        for number in range(MAX_CACHED - 2):
            await histories.get(SessionId(f"more{number}"), 1)
        assert await histories.get(SESSION, 1) is first
        await histories.get(SessionId("one too many"), 1)
        assert await histories.get(SESSION, 1) is first
        assert await histories.get(SessionId("s2"), 1) is not second


async def test_conversations_with_large_images_are_let_go_before_they_fill_the_memory(
    tmp_path: Path,
) -> None:
    image = UserMessage((ImageBlock("A" * (MAX_CACHED_CHARS // 3), "image/png"),), 0)
    async with open_store(tmp_path / "s.sqlite") as store:
        histories = ConversationCache(store)
        first = await histories.get(SessionId("s0"), 1)
        for number in range(4):
            conversation = await histories.get(SessionId(f"s{number}"), 1)
            conversation.history.append(image)
            conversation.tail = 1
            assert await histories.get(SessionId(f"s{number}"), 2) is conversation
        await append(store, "a", session_id=SessionId("s0"))
        assert await histories.get(SessionId("s0"), 2) is not first
        loaded = await histories.get(SessionId("s3"), 2)
        assert loaded.history.messages == [image]
        loaded.history.append(image)
        loaded.history.append(image)
        loaded.tail = 3
        assert await histories.get(SessionId("s3"), 4) is loaded  # too large, and in use
