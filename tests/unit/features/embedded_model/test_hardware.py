"""The check of a machine for a model file, and its message."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from skerry.features.embedded_model.hardware import Machine, needed_bytes
from skerry.model.errors import ModelUnavailableError

GOOD = Machine(
    "x86_64", frozenset({"avx2"}), has_runtime=True, packaged=None, free_bytes=lambda: 1 << 40
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF" + b"\0" * 100)
    return path


@pytest.mark.parametrize(
    "machine",
    [
        GOOD,
        replace(GOOD, processor="aarch64", features=frozenset()),
        replace(GOOD, free_bytes=lambda: None),
    ],
)
def test_a_machine_that_can_says_nothing(machine: Machine, file: Path) -> None:
    machine.check(file)


@pytest.mark.parametrize(
    ("machine", "reason"),
    [
        (replace(GOOD, processor="riscv64"), "riscv64 processor"),
        (replace(GOOD, processor=""), "unknown processor"),
        (replace(GOOD, features=frozenset({"avx"})), "AVX2"),
        (replace(GOOD, has_runtime=False), "xllamacpp"),
        (replace(GOOD, free_bytes=lambda: 200 << 20), "needs 300 MB of memory; 200 MB are free"),
    ],
)
def test_a_machine_that_cannot_says_why_and_what_to_do(
    machine: Machine, reason: str, file: Path
) -> None:
    with pytest.raises(ModelUnavailableError, match=reason) as caught:
        machine.check(file)
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("content", "reason"), [(None, "No such file"), (b"", "GGUF"), (b"PK\3\4", "GGUF")]
)
def test_a_file_that_is_no_model_is_refused(
    content: bytes | None, reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "model.gguf"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ModelUnavailableError, match=reason) as caught:
        GOOD.check(path)
    assert "skerry models use" in caught.value.remedy


def test_a_directory_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailableError, match="Is a directory"):
        GOOD.check(tmp_path)


@pytest.mark.parametrize(("size", "peak"), [(98 << 20, 459 << 20), (1100 << 20, 1982 << 20)])
def test_the_memory_asked_for_covers_what_was_measured(size: int, peak: int) -> None:
    assert peak <= needed_bytes(size) <= peak * 1.2


def test_this_machine_is_described() -> None:
    machine = Machine.detected()
    free = machine.free_bytes()
    assert machine.processor
    assert machine.features
    assert free is not None
    assert free > 1 << 20
