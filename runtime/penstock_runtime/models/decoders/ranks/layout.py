"""`SplitRule`: which axis of which weight is split between ranks, for each supported family. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from transformers import PreTrainedConfig

from penstock_api import names
from penstock_runtime.engine.model import ModelLoadFailed

RANKS_VARIABLES: Final = f"{names.ENV_TENSOR_PARALLEL} and {names.ENV_PIPELINE_PARALLEL}"


class Role(Enum):
    """What a split module contributes to the whole."""

    OUTPUTS = auto()
    """It computes some outputs, which the next module of the rank reads."""
    INPUTS = auto()
    """It reads some inputs; the outputs of all ranks are summed."""
    EMBEDDING = auto()
    """It knows some ids; the outputs of all ranks are summed."""
    HEAD = auto()
    """It computes the logits of some ids, which are concatenated."""


@dataclass(frozen=True, slots=True)
class SplitRule:
    """How one module is split."""

    role: Role
    parts: int = 1
    """Matrices that are concatenated in its weight by output, each of which is split."""


_LLAMA: Mapping[str, SplitRule] = {
    "q_proj": SplitRule(Role.OUTPUTS),
    "k_proj": SplitRule(Role.OUTPUTS),
    "v_proj": SplitRule(Role.OUTPUTS),
    "o_proj": SplitRule(Role.INPUTS),
    "gate_proj": SplitRule(Role.OUTPUTS),
    "up_proj": SplitRule(Role.OUTPUTS),
    "down_proj": SplitRule(Role.INPUTS),
    "embed_tokens": SplitRule(Role.EMBEDDING),
    "lm_head": SplitRule(Role.HEAD),
}
_GPT2: Mapping[str, SplitRule] = {
    "attn.c_attn": SplitRule(Role.OUTPUTS, parts=3),
    "attn.c_proj": SplitRule(Role.INPUTS),
    "mlp.c_fc": SplitRule(Role.OUTPUTS),
    "mlp.c_proj": SplitRule(Role.INPUTS),
    "wte": SplitRule(Role.EMBEDDING),
    "lm_head": SplitRule(Role.HEAD),
}
FAMILIES: Mapping[str, Mapping[str, SplitRule]] = {
    "gpt2": _GPT2,
    **dict.fromkeys(
        ("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text"), _LLAMA
    ),
}
"""By model type: the rule of each split module by the end of its name. All others are whole on every rank."""


def rule_of(family: Mapping[str, SplitRule], module: str) -> SplitRule | None:
    """Return the rule of the module with this dotted name; None: it is whole on every rank."""
    return next(
        (rule for end, rule in family.items() if module == end or module.endswith(f".{end}")), None
    )


def shard_ranges(size: int, parts: int, rank: int, ranks: int) -> list[range]:
    """Return the indices that `rank` reads of an axis of `size` with `parts` equal parts."""
    part = size // parts
    length = part // ranks
    return [
        range(at + rank * length, at + (rank + 1) * length) for at in range(0, size, max(1, part))
    ]


def family_of(config: PreTrainedConfig, ranks: int) -> Mapping[str, SplitRule]:
    """Return the rules of a model's family.

    Raises:
        ModelLoadFailed: the family is not supported, or `ranks` do not divide the model.
    """
    family = FAMILIES.get(config.model_type)
    if family is None:
        raise ModelLoadFailed(
            f"model type '{config.model_type}' cannot be split over ranks: unset {RANKS_VARIABLES},"
            f" or use one of {', '.join(sorted(FAMILIES))}"
        )
    check_divides(split_sizes(config), ranks)
    return family


def split_sizes(config: PreTrainedConfig) -> dict[str, int]:
    """Return the numbers of a model that its ranks divide, by name."""
    heads = int(config.num_attention_heads)
    width = getattr(config, "intermediate_size", None) or getattr(config, "n_inner", None)
    return {
        "attention heads": heads,
        "key-value heads": int(getattr(config, "num_key_value_heads", None) or heads),
        "outputs of a feed-forward layer": int(width or 4 * config.hidden_size),
        "ids of the vocabulary": int(config.vocab_size),
    }


def check_divides(sizes: Mapping[str, int], ranks: int) -> None:
    """Check that `ranks` divide each of `sizes`.

    Raises:
        ModelLoadFailed: naming the first number that they do not divide, and the ranks that are possible.
    """
    for name, size in sizes.items():
        if size % ranks:
            possible = [
                str(n)
                for n in range(1, min(sizes.values()) + 1)
                if not any(size % n for size in sizes.values())
            ]
            raise ModelLoadFailed(
                f"{ranks} ranks ({names.ENV_TENSOR_PARALLEL}) do not divide the {size} {name} of this model:"
                f" use {', '.join(possible)}"
            )
