"""What holds for every configuration."""

import json
import string
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from skerry.config.redact import REDACTED, redact
from skerry.config.write import set_values

CANARY = "CANARY7f3a"

names = st.text(string.ascii_letters + string.digits + "_-", min_size=1, max_size=12)
secret_names = st.sampled_from(
    ["token", "apiKey", "botToken", "password", "client_secret", "AUTHORIZATION", "refreshToken"]
)
leaves = st.none() | st.booleans() | st.integers() | st.text(max_size=20)
trees = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=20,
)
secret_values = st.recursive(
    st.just(CANARY),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=2)
        | st.dictionaries(names, inner, min_size=1, max_size=2)
    ),
    max_leaves=4,
)


@st.composite
def trees_with_secrets(draw: st.DrawFn) -> Any:
    tree: Any = {draw(secret_names): draw(secret_values)}
    for _ in range(draw(st.integers(0, 4))):
        other = draw(trees)
        beside = draw(st.booleans())
        tree = [other, tree] if beside else {draw(names): other} | {draw(names): tree}
    return tree


@given(trees_with_secrets())
def test_redaction_leaves_no_canary_at_any_position_of_the_secret(tree: Any) -> None:
    assert CANARY not in json.dumps(redact(tree))


@given(trees)
def test_redaction_keeps_the_shape_and_is_stable(tree: Any) -> None:
    once = redact(tree)
    assert redact(once) == once
    assert shape(once) == shape(tree)


def shape(tree: Any) -> Any:
    match tree:
        case dict():
            return {key: shape(value) for key, value in tree.items()}
        case list():
            return [shape(value) for value in tree]
        case _:
            return None


open_sections = names.filter(lambda name: not name.isdigit()).map(lambda name: f"x-{name}-unknown")


@given(st.dictionaries(open_sections, trees, max_size=4), open_sections, leaves.filter(bool))
def test_what_is_written_is_read_again_and_the_rest_is_as_before(
    before: dict[str, Any], name: str, value: Any
) -> None:
    with TemporaryDirectory() as directory:
        file = Path(directory) / "skerry.json"
        file.write_text(json.dumps(before))
        set_values(file, {f"agents.defaults.{name}": value})
        after = json.loads(file.read_text())
        assert after.pop("meta").keys() == {"lastTouchedVersion", "lastTouchedAt"}
        assert after.pop("agents") == {"defaults": {name: value}}
        assert after == before
        assert list(after) == list(before)


def test_a_known_tree_is_redacted_as_expected() -> None:
    assert redact({"gateway": {"auth": {"mode": "token", "token": "x"}}}) == {
        "gateway": {"auth": {"mode": "token", "token": REDACTED}}
    }
