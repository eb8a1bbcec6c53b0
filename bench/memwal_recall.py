"""LoCoMo through the wire of the relayer: each turn a memory, each question a recall of ten.

`--data DIR` is a folder with `locomo.docs.jsonl` and `locomo.queries.jsonl`, as for
`skerry memory bench`; without it nothing is measured. `--conversations N` takes the first. The
relayer compares meanings alone, as the protocol says; the built-in memory compares words too.
"""

import argparse
import json
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio

from bench.measure import figure
from tests.support.relayer_process import Client, made, served

BULK = 20
"""Texts of one request."""
AT_ONCE = 4


def rows(file: Path) -> list[dict[str, Any]]:
    """Returns the rows of a file."""
    return [json.loads(line) for line in file.read_text("utf-8").splitlines() if line]


async def store(client: Client, scope: str, turns: list[dict[str, Any]]) -> dict[str, str]:
    """Stores the turns of a conversation in a namespace; returns their ids by the blob's id."""
    ids: dict[str, str] = {}
    for begin in range(0, len(turns), BULK):
        some = turns[begin : begin + BULK]
        items = [
            {"text": f"{turn['speaker']}: {turn['text']}", "namespace": scope} for turn in some
        ]
        accepted = (await client.post("/api/remember/bulk", {"items": items})).json()["job_ids"]
        for job, turn in zip(accepted, some, strict=True):
            state = await client.done(job)
            ids.setdefault(state["blob_id"], turn["id"])
    return ids


async def ask(
    client: Client, scope: str, question: str, ids: dict[str, str]
) -> tuple[list[str], float]:
    """Returns the turns that a recall finds, the nearest first, and the highest relevance."""
    body = {"query": question, "limit": 10, "namespace": scope}
    results = (await client.post("/api/recall", body)).json()["results"]
    best = max((1 - row["distance"] for row in results), default=0.0)
    return [ids.get(row["blob_id"], "") for row in results], best


async def run(data: Path, max_conversations: int) -> None:
    """Prints the figures."""
    turns: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows(data / "locomo.docs.jsonl"):
        turns[row["scope"]].append(row)
    scopes = sorted(turns)[:max_conversations]
    queries = [row for row in rows(data / "locomo.queries.jsonl") if row["scope"] in scopes]
    recalls = {5: 0.0, 10: 0.0}
    count = kept = 0
    with TemporaryDirectory(prefix="skerry-") as folder:
        home = Path(folder)
        account = await made(home)
        async with served(home) as relayer, Client(relayer, account) as client:
            for scope in scopes:
                ids = await store(client, scope, turns[scope])
                turn_ids = {turn["id"] for turn in turns[scope]}
                for query in queries:
                    gold = set(query["evidence"]) & turn_ids
                    if query["scope"] != scope or not gold:
                        continue
                    hits, best = await ask(client, scope, query["question"], ids)
                    count += 1
                    kept += best >= 0.3  # noqa: PLR2004 - minRelevance
                    for limit in recalls:
                        recalls[limit] += len(gold & set(hits[:limit])) / len(gold)
    remarks = (
        f"{count} questions, {len(scopes)} conversations, {sum(map(len, turns.values()))} turns"
    )
    for limit, total in recalls.items():
        figure(
            f"LoCoMo turn recall@{limit} through the wire, %",
            "",
            f"{100 * total / count:.1f}",
            remarks,
        )
    figure("LoCoMo questions with a relevance of 0.3, %", "", f"{100 * kept / count:.1f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path)
    parser.add_argument("--conversations", type=int, default=100)
    options = parser.parse_args()
    if options.data is not None:
        anyio.run(run, options.data, options.conversations)
