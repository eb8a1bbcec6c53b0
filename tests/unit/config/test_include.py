"""Files that the configuration includes, and those that it may not."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.config.include import MAX_DEPTH, MAX_FILES, included, merged
from skerry.config.source import read
from skerry.model.errors import ConfigInvalidError


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    (home / "parts").mkdir(parents=True)
    return home


def tree(home: Path, root: Any, **files: Any) -> Any:
    """Returns the configuration of `root` with the files beside it; texts are written unchanged."""
    for name, value in {"skerry": root, **files}.items():
        text = value if isinstance(value, str) else json.dumps(value)
        (home / f"{name}.json").write_text(text)
    return included(read(home / "skerry.json"))[0]


def refused(home: Path, root: Any, **files: Any) -> str:
    with pytest.raises(ConfigInvalidError) as caught:
        tree(home, root, **files)
    (issue,) = caught.value.issues
    assert issue.remedy
    return str(issue)


def test_a_key_beside_an_include_overrides_it(home: Path) -> None:
    a = {"x": 1, "y": {"z": [1], "k": 1}}
    assert tree(home, {"s": {"$include": "./a.json", "y": {"z": [2], "k": 2}}}, a=a) == {
        "s": {"x": 1, "y": {"z": [1, 2], "k": 2}}
    }


def test_of_several_files_the_later_counts(home: Path) -> None:
    found = tree(
        home, {"$include": ["a.json", "b.json"]}, a={"x": 1, "l": [1]}, b={"x": 2, "l": [2]}
    )
    assert found == {"x": 2, "l": [1, 2]}


def test_an_included_file_includes_beside_itself(home: Path) -> None:
    (home / "parts" / "in.json").write_text("[1]")
    (home / "parts" / "out.json").write_text('{l: {$include: "in.json"}} // mine')
    assert tree(home, {"s": {"$include": "parts/out.json"}}) == {"s": {"l": [1]}}


def test_the_owner_of_a_place_is_the_file_it_came_from(home: Path) -> None:
    (home / "a.json").write_text("{}")
    (home / "skerry.json").write_text('{"s": {"$include": "a.json"}}')
    includes = included(read(home / "skerry.json"))[1]
    assert includes.owner(("s", "x")) == home / "a.json"
    assert includes.owner(("t",)) is None


@pytest.mark.parametrize(
    "name", ["../out.json", "/etc/passwd", "parts/../../out.json", "", ".", "a\0.json"], ids=repr
)
def test_a_file_outside_the_directory_is_refused(home: Path, name: str) -> None:
    (home.parent / "out.json").write_text("{}")
    assert "outside the directory" in refused(home, {"$include": name})


def test_a_link_out_of_the_directory_is_refused(home: Path) -> None:
    (home.parent / "out.json").write_text("{}")
    (home / "link.json").symlink_to(home.parent / "out.json")
    assert "a link out of" in refused(home, {"$include": "link.json"})
    (home / "parts" / "link").symlink_to(home.parent)
    assert "a link out of" in refused(home, {"$include": "parts/link/out.json"})


def test_a_second_name_of_a_file_elsewhere_is_refused(home: Path) -> None:
    (home.parent / "out.json").write_text("{}")
    os.link(home.parent / "out.json", home / "hard.json")
    assert "hard link" in refused(home, {"$include": "hard.json"})


def test_a_link_inside_the_directory_is_followed(home: Path) -> None:
    (home / "parts" / "real.json").write_text('{"x": 1}')
    (home / "link.json").symlink_to("parts/real.json")
    assert tree(home, {"$include": "link.json"}) == {"x": 1}


def test_a_circle_is_named(home: Path) -> None:
    found = refused(
        home, {"$include": "a.json"}, a={"$include": "b.json"}, b={"$include": "a.json"}
    )
    assert "a.json -> b.json -> a.json" in found
    assert "skerry.json -> skerry.json" in refused(home, {"$include": "skerry.json"})


def chain(home: Path, files: int) -> Any:
    parts = {f"f{n}": {"$include": f"f{n + 1}.json"} for n in range(files - 1)}
    return tree(home, {"$include": "f0.json"}, **parts, **{f"f{files - 1}": {"end": 1}})


def test_ten_files_may_include_each_other_and_no_more(home: Path) -> None:
    assert chain(home, MAX_DEPTH) == {"end": 1}
    with pytest.raises(ConfigInvalidError, match="nested too deep"):
        chain(home, MAX_DEPTH + 1)


def test_there_is_a_limit_to_the_number_of_files(home: Path) -> None:
    names = ["a.json"] * MAX_FILES
    assert tree(home, {"$include": names}, a={"x": 1}) == {"x": 1}
    assert "one file too many" in refused(home, {"$include": [*names, "a.json"]}, a={})


def test_there_is_a_limit_to_the_size(home: Path) -> None:
    assert "too large" in refused(home, {"$include": "a.json"}, a={"x": "y" * 1_048_576})
    big = {"x": "y" * 1_000_000}
    assert "too large" in refused(home, {"$include": ["a.json"] * 5}, a=big)


def test_an_error_names_the_file_the_line_and_what_to_do(home: Path) -> None:
    found = refused(home, '{\n "s": {\n  "$include": "gone.json"}}')
    assert found == (
        "s.$include: skerry.json line 3: 'gone.json' cannot be read: No such file or directory."
        " Correct the name, or create the file."
    )
    broken = refused(home, {"s": {"$include": "a.json"}}, a="{\n x: }")
    assert f"{home / 'a.json'}: line 2" in broken


@pytest.mark.parametrize("value", [5, {}, [], [1], None], ids=repr)
def test_an_include_names_a_file_or_several(home: Path, value: object) -> None:
    assert "a list of files" in refused(home, {"$include": value})


def test_keys_beside_something_that_is_no_object_are_refused(home: Path) -> None:
    assert "not an object" in refused(home, {"s": {"$include": "a.json", "x": 1}}, a=[1])
    assert "must be an object" in refused(home, {"$include": "a.json"}, a=[1])


def test_keys_that_could_change_a_prototype_are_dropped(home: Path) -> None:
    found = tree(home, {"$include": ["a.json", "b.json"]}, a={"__proto__": 1}, b={"constructor": 1})
    assert found == {}


leaves = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
trees = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=12,
)


def naive(base: Any, over: Any) -> Any:
    """Returns the merge as the format describes it, key by key."""
    if type(base) is dict and type(over) is dict:
        return {
            key: naive(base[key], over[key])
            if key in base and key in over
            else {**base, **over}[key]
            for key in {**base, **over}
        }
    return base + over if type(base) is list and type(over) is list else over


@given(trees, trees)
def test_merging_is_what_the_format_says(base: Any, over: Any) -> None:
    assert merged(base, over) == naive(base, over)
