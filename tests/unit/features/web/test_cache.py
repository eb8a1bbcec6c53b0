"""Results that are kept for some minutes."""

from skerry.features.web.cache import MAX_CHARS, MAX_ENTRIES, Cache


def test_a_result_is_kept_until_its_time() -> None:
    cache = Cache()
    cache.put("a", {"text": "x"}, 1, until_ms=10, now_ms=0)
    cache.put("b", {"text": "x"}, 1, until_ms=10, now_ms=10)
    assert cache.get("a", 9) == {"text": "x"}
    assert cache.get("b", 9) is None
    assert cache.get("a", 10) is None


def test_of_too_many_the_oldest_is_dropped() -> None:
    cache = Cache()
    for number in range(MAX_ENTRIES + 1):
        cache.put(number, {}, 1, 10, 0)
    assert cache.get(0, 0) is None
    assert cache.get(1, 0) == {}


def test_the_texts_together_are_limited() -> None:
    cache = Cache()
    cache.put("a", {}, MAX_CHARS, 10, 0)
    cache.put("a", {}, MAX_CHARS, 10, 0)
    assert cache.get("a", 0) == {}
    cache.put("b", {}, 1, 10, 0)
    assert (cache.get("a", 0), cache.get("b", 0)) == (None, {})
    cache.put("c", {}, MAX_CHARS + 1, 10, 0)
    assert cache.get("c", 0) is None
    cache.clear()
    assert cache.get("b", 0) is None
