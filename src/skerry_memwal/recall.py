"""Recalls memories before a prompt is built (seed 000, "Auto-recall"; seed 001, first hook)."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import anyio

from skerry.sdk.channels import PeerKind
from skerry.sdk.hooks import PromptChange, PromptDraft, RunContext
from skerry_memwal.client import MemWalError, Recalled
from skerry_memwal.injection import is_injection
from skerry_memwal.namespaces import agent_of
from skerry_memwal.relayer import Relayer
from skerry_memwal.texts import MIN_PROMPT, block, instruction, units

MAX_QUERY: Final = 8_000
"""Maximum length of a query, which is the beginning of the prompt, in characters."""
MAX_TEXTS: Final = 500
"""Number of stored texts of the latest prompts, by which quotes are recognised."""


class PromptTexts:
    """Memories in earlier prompts, so that quotes of them in answers are not stored again."""

    def __init__(self) -> None:
        self._texts: OrderedDict[str, None] = OrderedDict()

    def add(self, texts: Sequence[str]) -> None:
        """Adds texts; keeps the newest `MAX_TEXTS`."""
        for text in texts:
            self._texts[text] = None
            self._texts.move_to_end(text)
        while len(self._texts) > MAX_TEXTS:
            self._texts.popitem(last=False)

    def unquoted(self, text: str) -> str:
        """Returns a text without the texts of earlier prompts."""
        for quoted in self._texts:
            if quoted in text:
                text = text.replace(quoted, "")
        return text


class Recall:
    """Handler of `before_prompt_build`."""

    def __init__(self, relayer: Relayer, prompt_texts: PromptTexts) -> None:
        self._relayer = relayer
        self._prompt_texts = prompt_texts

    async def handle(self, draft: PromptDraft) -> PromptChange | None:
        """Returns the memories and the namespace for the prompt; at least the namespace."""
        if not is_open(draft.context):
            return None
        agent = agent_of(draft.context.session_key)
        namespace = self._relayer.namespace(agent)
        memories = await self._memories(draft, agent, namespace)
        text = _fitting(memories, draft.context_bytes)
        if text:
            self._relayer.logger.info(
                "memory-memwal: auto-recall injected %d memories (agent: %s, namespace: %s)",
                len(memories),
                agent,
                namespace,
            )
        return PromptChange(
            prepend_context=text or None, append_system_context=instruction(namespace)
        )

    async def _memories(self, draft: PromptDraft, agent: str, namespace: str) -> list[str]:
        relayer, options = self._relayer, self._relayer.options
        if units(draft.prompt) < MIN_PROMPT or not options.auto_recall or relayer.is_resting:
            return []
        try:
            memories = await self._recalled(draft.prompt[:MAX_QUERY], agent, namespace)
        except MemWalError as error:
            relayer.failed(error)
            relayer.logger.warning("memory-memwal: auto-recall failed: %s", error)
            return []
        relayer.answered()
        texts = relevant(memories, options.min_relevance, options.max_recall_results)
        self._prompt_texts.add(texts)
        return texts

    async def _recalled(self, query: str, agent: str, namespace: str) -> Sequence[Recalled]:
        """Returns the memories nearest to a text, within the time limit of a prompt.

        Raises:
            MemWalError: the server refused, or did not answer in time.
        """
        options = self._relayer.options
        seconds = options.recall_seconds
        with anyio.move_on_after(seconds):
            client = self._relayer.client(agent)
            return await client.recall(query, options.max_recall_results, namespace)
        raise MemWalError(
            f"The MemWal server did not answer within {seconds:g} s.",
            "requestTimeoutMs of the plugin sets the limit.",
            retry=True,
        )


def is_open(context: RunContext) -> bool:
    """Returns whether the owner is the only person in the conversation of a run."""
    caller = context.caller
    return caller is not None and caller.is_private and caller.chat is PeerKind.DIRECT


def relevant(memories: Sequence[Recalled], min_relevance: float, limit: int) -> list[str]:
    """Returns the relevant texts that contain no instructions to a model, nearest first."""
    selected = [
        memory
        for memory in sorted(memories, key=lambda memory: memory.distance)
        if 1 - memory.distance >= min_relevance and not is_injection(memory.text)
    ]
    return [memory.text for memory in selected[:limit]]


def _fitting(memories: list[str], max_bytes: int) -> str:
    """Returns the block with the memories that fit; removes the others from the list."""
    while memories:
        text = block(memories)
        if len(text.encode()) <= max_bytes:
            return text
        memories.pop()
    return ""
