"""Items of an array as one text: what is sent is what a list of them would give."""

from hypothesis import given
from hypothesis import strategies as st

from skerry.providers.joined import Joined

ITEMS = st.binary(min_size=1, max_size=3)


@given(st.lists(st.one_of(ITEMS, st.integers(0, 8)), max_size=20), st.integers(0, 20))
def test_what_is_left_is_joined_by_commas(steps: list[bytes | int], first: int) -> None:
    joined, kept, marks = Joined(), list[bytes](), list[int]()
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
