"""Rules on folders that a sandbox may be given, by their text."""

from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.policy.binds import CLOSED, SECRETS, BindError, normalised, parsed, refused

names = st.from_regex(r"[A-Za-z0-9_]{1,8}", fullmatch=True)
paths = st.lists(names, min_size=1, max_size=4).map("/".join)


@pytest.mark.requirement("sandbox-bind-parse")
@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("/srv/data:/data", "/srv/data"),
        ("/srv//data/:/data:ro", "/srv/data"),
        ("//srv/./data:/data", "/srv/data"),
        ("/srv/x/../data:/data:rw", "/srv/data"),
    ],
)
def test_a_source_is_normalised(text: str, source: str) -> None:
    bind = parsed(text)
    assert bind.source == PurePosixPath(source)
    assert bind.is_writable is text.endswith(":rw")


@pytest.mark.requirement("sandbox-blocked-host-paths")
@pytest.mark.requirement("sandbox-bind-string-check")
@pytest.mark.parametrize(
    "text",
    [
        "/:/data",
        "//:/data",
        "/srv/..:/data",
        "/etc:/data",
        "/etc/ssl:/data",
        "/ETC/ssl:/data",
        "/proc/1:/data",
        "/sys:/data",
        "/dev/sda:/data",
        "/root:/data",
        "/root/project:/data",
        "/boot:/data",
        "/run/user:/data",
        "/var/run/docker.sock:/data",
        "/var:/data",
        "/private/etc:/data",
        "/srv/../etc/passwd:/data",
        "/srv/docker.sock:/data",
        "/srv/agent.sock:/data",
        "/home:/data",
        "/home/ann:/data",
        "/home/ann/.ssh:/data",
        "/home/ann/.aws/credentials:/data",
        "srv:/data",
        "../srv:/data",
        ":/data",
        "/srv:",
        "/srv",
        "/srv:data",
        "/srv:/data:rx",
        "/srv:/data:ro:z",
        "/srv\0:/data",
        "/srv:/workspace",
        "/srv:/workspace/hooks",
        "/srv:/",
        "/srv:/usr/bin",
        "/srv:/etc",
        "/srv:/proc/1",
        "/srv:/data/../etc",
        "/srv:/tmp",
    ],
)
def test_what_is_never_given_is_refused_with_the_reason(text: str) -> None:
    with pytest.raises(BindError) as error:
        parsed(text)
    assert len(str(error.value)) > 20


def test_a_source_lies_beneath_an_allowed_root() -> None:
    home = (PurePosixPath("/var/lib/ann"),)
    assert refused(PurePosixPath("/var/lib/ann/data"), home) == ""
    assert refused(PurePosixPath("/srv/data"), home) == ""
    assert "is in none of" in refused(PurePosixPath("/var/lib/ben/data"), home)
    assert refused(PurePosixPath("/srv"), home) != ""


@given(st.sampled_from(CLOSED), paths, st.sampled_from(["/", "//", "/./", "/x/../"]))
def test_no_spelling_of_a_closed_folder_is_given(
    closed: PurePosixPath, below: str, slash: str
) -> None:
    text = slash.join(["", *closed.parts[1:], below])
    with pytest.raises(BindError):
        parsed(f"{text}:/data")


@given(paths, st.sampled_from(sorted(SECRETS)), paths)
def test_a_folder_of_credentials_is_refused_at_any_depth(
    above: str, secret: str, below: str
) -> None:
    assert refused(normalised(f"/srv/{above}/{secret}/{below}")) != ""
