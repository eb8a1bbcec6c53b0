"""Modules of the memory that are not loaded at the start."""

from typing import TYPE_CHECKING

from skerry.infra.late import late

if TYPE_CHECKING:
    from skerry.features.memory import answers as answers
    from skerry.features.memory import builtin as builtin
    from skerry.features.memory import chat_commands as chat_commands
    from skerry.features.memory import claimed as claimed
    from skerry.features.memory import context_filter as context_filter
    from skerry.features.memory import editing as editing
    from skerry.features.memory import embedding_models as embedding_models
    from skerry.features.memory import file_changes as file_changes
    from skerry.features.memory import file_eraser as file_eraser
    from skerry.features.memory import index as index
    from skerry.features.memory import index_search as index_search
    from skerry.features.memory import indexer as indexer
    from skerry.features.memory import markdown_files as markdown_files
    from skerry.features.memory import media as media
    from skerry.features.memory import methods as methods
    from skerry.features.memory import offline as offline
    from skerry.features.memory import qmd as qmd
    from skerry.features.memory import qmd_daemon as qmd_daemon
    from skerry.features.memory import qmd_program as qmd_program
    from skerry.features.memory import qmd_sessions as qmd_sessions
    from skerry.features.memory import query_embedding as query_embedding
    from skerry.features.memory import recall_hook as recall_hook
    from skerry.features.memory import slot as slot
    from skerry.features.memory import slot_fallback as slot_fallback
    from skerry.features.memory import tools as tools
    from skerry.features.memory import transcript_markdown as transcript_markdown
    from skerry.store import holding_backups as holding_backups
    from skerry.store import orphan_mirrors as orphan_mirrors
    from skerry_recall import embed as embed
    from skerry_recall import embedder_chain as embedder_chain
    from skerry_recall import vector_space as vector_space
else:
    __getattr__ = late(
        __package__,
        vector_space="skerry_recall.vector_space",
        embedder_chain="skerry_recall.embedder_chain",
        embed="skerry_recall.embed",
        holding_backups="skerry.store.holding_backups",
        orphan_mirrors="skerry.store.orphan_mirrors",
    )
