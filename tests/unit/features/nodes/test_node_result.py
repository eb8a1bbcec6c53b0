"""The result of a node as a model gets it: pictures, recordings, limits."""

import base64
from typing import Any

import pytest

from skerry.features.nodes import node_result
from skerry.features.nodes.node_result import MAX_PICTURES, MAX_TEXT, converted
from skerry.model.message import ImageBlock
from skerry.runtime.pictures import MAX_SIDE
from tests.support.node_device import photo

WAV = base64.b64encode(b"RIFF....WAVE").decode()


def test_pictures_anywhere_in_the_payload_are_shown_and_their_text_is_not_repeated() -> None:
    shot = photo()
    result = converted({"photos": [{"format": "jpeg", "base64": shot, "at": 5}]})
    assert result.pictures == [ImageBlock(shot, "image/jpeg")]
    assert result.text == (
        '{"photos":[{"file":"JPEG picture, 8 x 6 pixels.","format":"jpeg","at":5}]}'
    )


def test_a_large_picture_is_scaled_to_the_limit_of_pictures() -> None:
    result = converted({"base64": photo((MAX_SIDE + 500, 10))})
    assert result.text.endswith('pixels. It was scaled down."}')
    assert len(result.pictures) == 1


@pytest.mark.parametrize(
    ("payload", "note"),
    [
        ({"base64": "not base64!", "format": "png"}, "left out: not base64"),
        ({"base64": "aGVsbG8=", "format": "png"}, "left out: not a readable picture"),
        ({"base64": "aGVsbG8=", "format": "mp4"}, "left out: not one recording of the format mp4"),
        ({"base64": WAV, "format": "WAV"}, "a recording of 12 bytes"),
    ],
)
def test_a_file_is_named_by_its_content(payload: dict[str, Any], note: str) -> None:
    assert note in converted(payload).text


def test_a_file_over_the_limit_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_result, "MAX_RECORDING", 8)
    assert "left out: more than 8 bytes" in converted({"base64": WAV, "format": "wav"}).text


def test_there_are_at_most_four_pictures_and_one_recording() -> None:
    wav = {"base64": WAV, "format": "wav"}
    result = converted([*[{"base64": photo()}] * (MAX_PICTURES + 1), wav, wav])
    assert (len(result.pictures), len(result.recordings)) == (MAX_PICTURES, 1)
    assert "left out: more than 4 pictures" in result.text
    assert "left out: not one recording" in result.text


def test_long_and_deep_and_invisible_text_is_cut() -> None:
    deep: Any = "end"
    for _ in range(20):
        deep = [deep]
    assert "[left out: too deep]" in converted(deep).text
    assert "[cut: 9000 characters]" in converted("x" * 9000).text
    many = converted(["x" * 5000] * 9).text
    assert len(many) < MAX_TEXT + 100
    assert many.endswith(f"[Cut after {MAX_TEXT} of 45028 characters.]")
    assert converted("a\u202eb").text == '"ab"'
    assert converted(None).text == "The node returned nothing."
