"""`stage_layers` and `StageModules`: which layers and other modules each stage of a model has. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from penstock_api import names
from penstock_runtime.engine.model import ModelLoadFailed


@dataclass(frozen=True, slots=True)
class StageModules:
    """Names of the modules that a family's stages divide; all others are on every stage."""

    layers: str
    """The list of layers."""
    first: tuple[str, ...]
    """Embeddings, on the first stage."""
    last: tuple[str, ...]
    """The final norm, on the last stage."""
    head: str
    """The output head, on the last stage."""


_LLAMA = StageModules("model.layers", ("model.embed_tokens",), ("model.norm",), "lm_head")
_GPT2 = StageModules(
    "transformer.h", ("transformer.wte", "transformer.wpe"), ("transformer.ln_f",), "lm_head"
)
STAGE_MODULES: Mapping[str, StageModules] = {
    "gpt2": _GPT2,
    **dict.fromkeys(
        ("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text"), _LLAMA
    ),
}
"""By model type."""


def stage_layers(layers: int, stage: int, stages: int) -> range:
    """Return the layers of `stage`, whose number differs by at most one between stages.

    The last stage also has the output head and the first the embedding, so the others get a remaining layer first.

    Raises:
        ModelLoadFailed: there are more stages than layers.
    """
    if stages > layers:
        raise ModelLoadFailed(
            f"{stages} stages ({names.ENV_PIPELINE_PARALLEL}) are more than the {layers} layers of this model:"
            f" use at most {layers}"
        )
    each, remaining = divmod(layers, stages)
    longer = {*[*range(1, stages - 1), 0][:remaining]}
    counts = [each + (number in longer) for number in range(stages)]
    first = sum(counts[:stage])
    return range(first, first + counts[stage])
