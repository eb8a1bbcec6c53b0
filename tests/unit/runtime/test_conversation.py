"""The conversations in memory: the same as in the store, and read again when they are not."""

from pathlib import Path

from skerry.model import message
from skerry.model.ids import SessionId, SessionKey
from skerry.model.message import ImageBlock, UserMessage
from skerry.model.origin import Origin
from skerry.runtime.conversation import MAX_CACHED, MAX_CACHED_CHARS, ConversationCache
from skerry.store import Store, Unit, open_store, sessions

ONE = SessionId("s1")


def _owners(text: str) -> message.UserMessage:
    return message.UserMessage((message.TextBlock(text),), 0, Origin.OWNER)


async def said(store: Store, *texts: str, session_id: SessionId = ONE) -> None:
    def work(unit: Unit) -> None:
        key = SessionKey.parse(session_id)
        found, tail = sessions.ensure(unit, key, session_id, 0)
        sessions.append(unit, found, tail, "r", [_owners(one) for one in texts], 0)

    await store.write(work)


def texts(messages: list[message.Message]) -> list[str]:
    return [one.text for one in messages if isinstance(one, message.UserMessage)]


async def test_a_conversation_is_read_up_to_the_new_message(tmp_path: Path) -> None:
    async with open_store(tmp_path / "s.sqlite") as store:
        await said(store, "a", "b", "c")
        found = await ConversationCache(store).get(ONE, 3)
        assert (texts(found.history.messages), found.tail) == (["a", "b"], 2)


async def test_one_in_step_with_the_store_is_kept(tmp_path: Path) -> None:
    async with open_store(tmp_path / "s.sqlite") as store:
        await said(store, "a", "b")
        histories = ConversationCache(store)
        first = await histories.get(ONE, 2)
        first.history.append(message.user("b", 0))
        first.tail = 2
        await said(store, "c")
        assert await histories.get(ONE, 3) is first


async def test_one_out_of_step_is_read_again(tmp_path: Path) -> None:
    async with open_store(tmp_path / "s.sqlite") as store:
        await said(store, "a", "b", "c", "d")
        histories = ConversationCache(store)
        first = await histories.get(ONE, 2)
        for before in (4, 3):  # it moved on without us; it is behind what we have
            found = await histories.get(ONE, before)
            assert found is not first
            assert len(found.history.messages) == found.tail == before - 1


async def test_a_forgotten_one_is_read_again(tmp_path: Path) -> None:
    async with open_store(tmp_path / "s.sqlite") as store:
        await said(store, "a", "b")
        histories = ConversationCache(store)
        first = await histories.get(ONE, 2)
        first.history.append(message.user("never stored", 0))
        histories.forget(ONE)
        assert texts((await histories.get(ONE, 2)).history.messages) == ["a"]


async def test_only_the_last_ones_used_are_kept(tmp_path: Path) -> None:
    async with open_store(tmp_path / "s.sqlite") as store:
        histories = ConversationCache(store)
        first = await histories.get(ONE, 1)
        second = await histories.get(SessionId("s2"), 1)
        for number in range(MAX_CACHED - 2):
            await histories.get(SessionId(f"more{number}"), 1)
        assert await histories.get(ONE, 1) is first
        await histories.get(SessionId("one too many"), 1)
        assert await histories.get(ONE, 1) is first
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
        await said(store, "a", session_id=SessionId("s0"))
        assert await histories.get(SessionId("s0"), 2) is not first
        kept = await histories.get(SessionId("s3"), 2)
        assert kept.history.messages == [image]
        kept.history.append(image)
        kept.history.append(image)
        kept.tail = 3
        assert await histories.get(SessionId("s3"), 4) is kept  # too large, and in use
