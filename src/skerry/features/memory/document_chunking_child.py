"""Cuts a text in a child process; imports nothing of the gateway."""

from skerry_recall.chunk import chunks


def cut(job: tuple[str, int, int]) -> list[tuple[int, int, int, int]]:
    """Returns begin, end, first line and last line of each passage."""
    text, size, overlap = job
    return [
        (chunk.start, chunk.end, chunk.start_line, chunk.end_line)
        for chunk in chunks(text, size=size, overlap=overlap)
    ]
