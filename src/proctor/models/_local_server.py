"""The process in which a local model runs: this file as a script, with the weights and the name of the model.

It is a process of its own since nothing can end a generation from outside of the library that makes it, and that
library takes a process down with it that ends in the middle of one. Its first line of input is the key that callers
have to show; it answers with one line of JSON, where it listens or why it does not, and ends with its input.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any

CONTEXT_TOKENS = 8192
"""Prompt and answer together; what the model was trained for."""


def main(weights: str, name: str) -> None:
    """Load the model and serve it on this machine until the input ends."""
    key = sys.stdin.readline().strip()
    try:
        # Kept by its name: without it the model would be unloaded.
        server = _server(weights, name, key)
        said = {"address": server.listening_address}
    except Exception as error:
        said = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(said), flush=True)
    sys.stdin.read()
    os._exit(0)  # no tidying up: it would wait for a generation to end


def _server(weights: str, name: str, key: str) -> Any:
    xllamacpp = importlib.import_module("xllamacpp")  # an optional package
    params = xllamacpp.CommonParams()
    params.model.path = weights
    params.model_alias = {name}
    params.n_ctx = CONTEXT_TOKENS
    # One sequence at a time, and none of what it has seen before: what is computed together with something else comes
    # out a little different. One thread: several wait for each other, on a machine that does other things as well so
    # long that they are many times slower.
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.cache_prompt = False
    params.cache_ram_mib = 0
    params.verbosity = -1
    params.api_keys = [key]
    params.cors_origins = ""
    params.ui = params.endpoint_slots = False
    return xllamacpp.Server(params)


if __name__ == "__main__":
    main(*sys.argv[1:])
