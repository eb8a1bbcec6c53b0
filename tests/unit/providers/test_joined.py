"""Items of an array as one text: the same bytes as a list of them."""

from hypothesis import given
from hypothesis import strategies as st

from skerry.model.message import Message, user
from skerry.providers.wire_format import Items, JoinedItems

ITEMS = st.binary(min_size=1, max_size=3)


@given(st.lists(st.one_of(ITEMS, st.integers(0, 8)), max_size=20), st.integers(0, 20))
def test_what_is_left_is_joined_by_commas(steps: list[bytes | int], first: int) -> None:
    joined, kept, marks = JoinedItems(), list[bytes](), list[int]()
    for step in steps:
        if isinstance(step, bytes):
            marks.append(joined.end)
            joined.add(step)
            kept.append(step)
        elif step < len(kept):
            joined.cut(marks[step])
            del kept[step:], marks[step:]
    first = min(first, len(kept))
    mark = marks[first] if first < len(kept) else joined.end
    assert joined.since(mark) == b",".join(kept[first:])


def test_a_message_without_items_is_left_out_and_each_is_encoded_once() -> None:
    encoded: list[Message] = []

    def encode(message: Message) -> bytes:
        encoded.append(message)
        return str(message.timestamp).encode() if message.timestamp else b""

    items, messages = Items(encode), [user("x", time) for time in (1, 0, 2, 3)]
    for message in messages:
        items.add(message)
    assert [items.since(first) for first in range(5)] == [b"1,2,3", b"2,3", b"2,3", b"3", b""]
    assert encoded == messages
    items.keep(2)
    items.add(user("x", 4))
    assert items.since(0) == b"1,4"
