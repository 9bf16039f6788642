"""`TokenComparison`: the error of a generative model in a requested 16-bit type, from float32, on fixed prompts.

It is measured once for each content, type, backend and machine, and stored next to the model. The float32 model is loaded, computes
the prompts and is released before the served one is loaded. The served decoder computes the same prompts.
"""

import copy
import gc
import hashlib
import json
import logging
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import PreTrainedConfig

from penstock_api.pod_contract import BackendCandidate, ModelBackendState
from penstock_runtime.cgroup import free_memory_bytes
from penstock_runtime.engine.continuous.limits import KVSpec
from penstock_runtime.engine.continuous.steps.options import DType, StepOptions
from penstock_runtime.engine.model import ModelLoadFailed
from penstock_runtime.models.backends.base import installed_version
from penstock_runtime.models.decoders import load
from penstock_runtime.models.decoders.backends.step_times import StepCandidate
from penstock_runtime.models.decoders.capacity import free_bytes
from penstock_runtime.models.decoders.packing import positions_of
from penstock_runtime.models.decoders.revision import revision
from penstock_runtime.models.decoders.torch_decoders.transformers_decoder import Decoder
from penstock_runtime.models.device.processor import this_processor
from penstock_runtime.models.weights import weight_files

PROMPTS = (
    "The quick brown fox jumps over the lazy dog, and the dog, which has seen this before, goes back to sleep.",
    "def fibonacci(n):\n    if n < 2:\n        return n\n    return fibonacci(n - 1) + fibonacci(n - 2)\n",
    "Question: A train leaves at 9:40 and arrives at 11:15. How long is the journey? Answer: 1 hour and 35 minutes.",
    "Water boils at 100 degrees Celsius at sea level; on a high mountain the pressure is lower, and so is the boiling point.",
)
MAX_TOKENS = 48
"""Tokens of a prompt; a longer one is cut."""
ALTERNATIVES = 20
"""Most probable tokens of a position that are compared, as many as clients can request."""
SECONDS = 60.0
"""Time after which no further prompt starts."""
HEADROOM = 1.25
"""Free memory that the float32 model needs, relative to its weights."""
_FORMAT = 1
_PACKAGES = ("torch", "transformers", "openvino")
_NARROW = (torch.float16, torch.bfloat16)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ExpectedScores:
    """A prompt and the log-probabilities after each of its tokens in float32."""

    ids: np.ndarray
    """[T]."""
    tokens: torch.Tensor
    """[T, ALTERNATIVES]: the most probable next tokens, in order."""
    logprobs: torch.Tensor
    """[T, ALTERNATIVES]."""


@dataclass(frozen=True, slots=True)
class TokenErrors:
    """Differences from float32."""

    greatest: float
    """Of the log-probability of one of the ALTERNATIVES."""
    mean: float
    equal_share: float
    """Share of the positions with the same most probable token, 0 to 1."""


class TokenComparison:
    """One comparison: `begin` before the model is loaded, `end` with its decoder."""

    def __init__(
        self, selected: StepCandidate, files: Sequence[Path], known: TokenErrors | None, expected: Sequence[ExpectedScores]
    ) -> None:  # fmt: skip
        self._selected, self._files = selected, files
        self._known, self._expected = known, expected

    @classmethod
    def begin(
        cls,
        folder: Path,
        config: PreTrainedConfig,
        selected: StepCandidate,
        device: torch.device,
        options: StepOptions,
    ) -> "TokenComparison | None":
        """Return the comparison of a requested type; None for one that is not narrower, or without memory for float32.

        The first of the options' folders that can be written keeps the result.
        """
        if options.dtype is DType.AUTO or selected.dtype not in _NARROW:
            return None
        name = f"{_key(folder, selected, device, options)}.json"
        files = [cache / name for cache in options.folders]
        known = next((stored for file in files if (stored := _read(file))), None)
        if known is not None:
            return cls(selected, files, known, ())
        needed = int(HEADROOM * _float32_bytes(folder, config))
        if needed > min(free_bytes(device), free_memory_bytes()):
            _log.warning("%s is not compared with float32: %d MiB of memory are not free", selected, needed >> 20)  # fmt: skip
            return None
        return cls(selected, files, None, expected_scores(folder, config, device))

    def end(self, decoder: Decoder, kv: KVSpec, longest: int, name: str) -> ModelBackendState:
        """Return the errors of `decoder`, of the backend `name`; its cache is overwritten.

        Raises:
            ModelLoadFailed: an output is not finite.
        """
        errors = self._known or token_errors(decoder, kv, longest, self._expected)
        if not np.isfinite(errors.greatest):
            raise ModelLoadFailed(
                f"log-probabilities in {self._selected} are not finite: set spec.model.dtype to BFloat16 or Float32"
            )
        if self._known is None:
            _store(self._files, errors)
        _log.info("log-probabilities of %s differ from float32 by %.1e at most and %.1e on average; %.1f %% of the most"
                  " probable tokens are equal", self._selected, errors.greatest, errors.mean, 100 * errors.equal_share)  # fmt: skip
        candidate = BackendCandidate(
            name=name,
            greatest_error=errors.greatest,
            mean_error=errors.mean,
            equal_token_share=errors.equal_share,
        )
        return ModelBackendState(name=name, candidates=(candidate,), cached=self._known is not None)


def expected_scores(
    folder: Path,
    config: PreTrainedConfig,
    device: torch.device,
    clock: Callable[[], float] = time.monotonic,
) -> list[ExpectedScores]:
    """Return the log-probabilities of the prompts in float32, of one prompt at least."""
    model: Any = load.load_model(folder, copy.deepcopy(config), torch.float32, device)
    began, scores = clock(), list[ExpectedScores]()
    for ids in _prompts(folder, config):
        if scores and clock() - began > SECONDS:
            break
        with torch.inference_mode():
            logits = model(input_ids=torch.from_numpy(ids)[None].to(device), use_cache=False).logits
            logprobs, tokens = _logprobs(logits[0]).topk(min(ALTERNATIVES, logits.shape[-1]))
        scores.append(ExpectedScores(ids, tokens.cpu(), logprobs.cpu()))
    del model
    gc.collect()
    torch.cuda.empty_cache()  # the cache of the served model is sized by what the device has free
    return scores


def token_errors(
    decoder: Decoder, kv: KVSpec, longest: int, expected: Sequence[ExpectedScores]
) -> TokenErrors:
    """Return the differences of `decoder` from `expected`, of prompts cut to what the cache holds."""
    differences, equal = list[torch.Tensor](), list[torch.Tensor]()
    for prompt in expected:
        count = min(len(prompt.ids), longest, kv.tokens)
        tables = np.arange(kv.blocks_for(count), dtype=np.int32)[None]
        starts, first = np.array([0, count]), np.zeros(1, np.int64)
        packed = positions_of(prompt.ids[:count], tables, first, starts, kv.block_tokens)
        packed.last = np.arange(count)
        with torch.inference_mode():
            got = _logprobs(torch.as_tensor(decoder.forward(packed))).cpu()
        tokens = prompt.tokens[:count]
        differences.append((got.gather(1, tokens) - prompt.logprobs[:count]).abs().flatten())
        equal.append(got.argmax(-1) == tokens[:, 0])
    joined = torch.cat(differences)
    share = torch.cat(equal).double().mean()
    return TokenErrors(joined.max().item(), joined.mean().item(), share.item())


def _logprobs(logits: torch.Tensor) -> torch.Tensor:
    return logits.float().log_softmax(-1)


def _prompts(folder: Path, config: PreTrainedConfig) -> list[np.ndarray]:
    """Return the ids of the prompts; without a tokenizer in `folder`, random ones."""
    vocabulary, file = config.get_text_config().vocab_size, folder / "tokenizer.json"
    if file.is_file():
        encoded = [Tokenizer.from_file(str(file)).encode(text).ids[:MAX_TOKENS] for text in PROMPTS]
        if all(ids and max(ids) < vocabulary for ids in encoded):
            return [np.array(ids, np.int64) for ids in encoded]
    random = np.random.default_rng(0)
    return [random.integers(0, vocabulary, MAX_TOKENS) for _ in PROMPTS]


def _float32_bytes(folder: Path, config: PreTrainedConfig) -> int:
    stored = sum(file.stat().st_size for file in weight_files(folder) if file.is_file())
    return stored * (2 if getattr(config, "dtype", None) in _NARROW else 1)


def _key(folder: Path, selected: StepCandidate, device: torch.device, options: StepOptions) -> str:
    machine = torch.cuda.get_device_name(device) if device.type == "cuda" else this_processor()
    versions = [f"{package} {installed_version(package)}" for package in _PACKAGES]
    ranks = f"{options.tensor_parallel} by {options.pipeline_parallel} ranks"
    parts = [f"errors {_FORMAT}", revision(folder), str(selected), ranks, machine, *versions]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def _read(file: Path) -> TokenErrors | None:
    try:
        given = json.loads(file.read_bytes())
        return TokenErrors(*(float(given[name]) for name in ("greatest", "mean", "equal_share")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        _log.warning("the errors in %s cannot be read and are measured again: %s", file, error)
        return None


def _store(files: Sequence[Path], errors: TokenErrors) -> None:
    """Write to the first folder that can be written; without one the next load measures again."""
    for file in files:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False) as complete:
                json.dump(asdict(errors), complete)
            written = Path(complete.name)
            written.chmod(0o644)
            written.rename(file)
        except OSError as error:
            _log.info("the errors are not stored in %s: %s", file.parent, error)
        else:
            return
