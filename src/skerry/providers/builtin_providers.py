"""Hosted providers and local servers that need no configuration."""

from typing import Final

from msgspec import Struct


class KnownProvider(Struct, frozen=True):
    """A hosted model API. The first of `variables` that is set holds its key."""

    id: str
    name: str
    variables: tuple[str, ...]
    base_url: str
    model: str
    """Default model."""
    context_window: int = 200_000
    output_limit: str = "max_tokens"
    """Field of a request that limits the answer; sent only for configured models."""
    api: str = "openai-completions"
    """The wire format at this address."""


HOSTED_PROVIDERS: Final = (
    KnownProvider(
        "openai",
        "OpenAI",
        ("OPENAI_API_KEY",),
        "https://api.openai.com/v1",
        "gpt-5.4-mini",
        output_limit="max_completion_tokens",
        api="openai-responses",
    ),
    KnownProvider(
        "anthropic",
        "Anthropic",
        ("ANTHROPIC_API_KEY",),
        "https://api.anthropic.com/v1",
        "claude-sonnet-5-5",
        context_window=1_000_000,
        api="anthropic-messages",
    ),
    KnownProvider(
        "openrouter",
        "OpenRouter",
        ("OPENROUTER_API_KEY",),
        "https://openrouter.ai/api/v1",
        "openrouter/auto",
    ),
    KnownProvider(
        "google",
        "Google Gemini",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        "https://generativelanguage.googleapis.com/v1beta",
        "gemini-3.8-flash",
        context_window=1_048_576,
        api="google-generative-ai",
    ),
    KnownProvider(
        "groq",
        "Groq",
        ("GROQ_API_KEY",),
        "https://api.groq.com/openai/v1",
        "openai/gpt-oss-120b",
        context_window=131_072,
    ),
    KnownProvider(
        "mistral",
        "Mistral",
        ("MISTRAL_API_KEY",),
        "https://api.mistral.ai/v1",
        "mistral-small-latest",
        context_window=128_000,
    ),
    KnownProvider(
        "deepseek",
        "DeepSeek",
        ("DEEPSEEK_API_KEY",),
        "https://api.deepseek.com/v1",
        "deepseek-flash",
    ),
    KnownProvider("xai", "xAI", ("XAI_API_KEY",), "https://api.x.ai/v1", "grok-4.6"),
    KnownProvider(
        "together",
        "Together",
        ("TOGETHER_API_KEY",),
        "https://api.together.xyz/v1",
        "openai/gpt-oss-120b",
        context_window=128_000,
    ),
    KnownProvider(
        "cerebras",
        "Cerebras",
        ("CEREBRAS_API_KEY",),
        "https://api.cerebras.ai/v1",
        "gpt-oss-120b",
        context_window=131_072,
    ),
)
"""Hosted providers; the first one with a key in the environment is used."""


_OTHER_IDS: Final = {"gemini": "google", "x-ai": "xai"}


def known_provider(name: str) -> KnownProvider | None:
    """Returns the hosted provider with this id or alias, such as `gemini` for `google`; or None."""
    provider_id = _OTHER_IDS.get(name, name)
    return next((provider for provider in HOSTED_PROVIDERS if provider.id == provider_id), None)


class LocalServer(Struct, frozen=True):
    """A model server on this machine, which its owner starts; it needs no key."""

    id: str
    name: str
    base_url: str


LOCAL: Final = (
    LocalServer("ollama", "Ollama", "http://127.0.0.1:11434/v1"),
    LocalServer("lmstudio", "LM Studio", "http://127.0.0.1:1234/v1"),
    LocalServer("llamacpp", "llama.cpp", "http://127.0.0.1:8080/v1"),
)
"""Local servers; the first one that answers is used."""
