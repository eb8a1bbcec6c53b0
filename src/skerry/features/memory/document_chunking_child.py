"""The part of cutting that runs in a process of its own; it imports nothing of the gateway."""

from skerry_recall.chunk import chunks


def cut(job: tuple[str, int, int]) -> list[tuple[int, int, int, int]]:
    """Returns where each passage begins and ends, and its first and last line."""
    text, size, overlap = job
    return [
        (chunk.start, chunk.end, chunk.start_line, chunk.end_line)
        for chunk in chunks(text, size=size, overlap=overlap)
    ]
