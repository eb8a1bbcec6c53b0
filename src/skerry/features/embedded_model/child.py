"""The process of the embedded model: llama.cpp's own server, for one gateway only.

Reads one JSON line from its input, prints one with its address when the model is loaded, and exits
at the end of its input. `skerry.features.embedded_model.provider` starts it.
"""

import json
import os
import sys
from typing import Any


def main() -> int:
    """Serves until the gateway ends."""
    settings = json.loads(sys.stdin.readline())
    # Output of the library must not mix with the line for which the gateway waits.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    server = _serve(settings)
    print(json.dumps({"base_url": f"{server.listening_address}/v1"}), file=answers, flush=True)
    sys.stdin.read()
    os._exit(0)  # the threads of the library cannot be stopped, and have no state


def _serve(settings: dict[str, Any]) -> Any:
    import xllamacpp  # type: ignore[import-untyped]  # noqa: PLC0415 - 100 MB, for this process only

    params = xllamacpp.CommonParams()
    params.model.path = settings["file"]
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [settings["api_key"]]
    params.n_ctx = settings["context_window"]
    params.n_parallel = 1
    params.n_threads_http = 2
    params.cpuparams.n_threads = settings["threads"]
    params.cpuparams_batch.n_threads = settings["threads"]
    params.cache_ram_mib = 64  # prompts of other conversations; the default is 8 GB
    params.endpoint_slots = False  # they would reveal prompts
    params.ui = False
    params.verbosity = 1
    if settings.get("is_tiny"):
        _calm(params.sampling)
    return xllamacpp.Server(params)


def _calm(sampling: Any) -> None:
    """Keeps a tiny model from repetitions and improbable words.

    Values by trial with SmolLM2-135M: with llama.cpp's own (temperature 0.8, no penalty) one of
    four short questions ended in a loop of one word.
    """
    sampling.temp = 0.2
    sampling.top_p = 0.9
    sampling.penalty_last_n = 256
    sampling.penalty_repeat = 1.05
    sampling.dry_multiplier = 0.8


if __name__ == "__main__":
    sys.exit(main())
