"""Sandboxes refuse to mount folders below `/dev`, so their tests keep their files on the disk."""

from pathlib import Path

import pytest


@pytest.fixture
def tmp_path(disk_path: Path) -> Path:
    return disk_path
