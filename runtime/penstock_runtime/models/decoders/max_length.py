"""How many positions a sequence may have, by the model's config and the pod's settings."""

from transformers import PreTrainedConfig

from penstock_runtime.engine.model import ModelLoadFailed


def max_length_of(config: PreTrainedConfig, asked: int | None) -> int:
    """Return the positions that a sequence may have: so many as are `asked` for, but within the model's own bound.

    LongRoPE (arXiv 2402.13753) has factors for short sequences and for long ones, and transformers takes one set
    for all sequences of a call, by the longest; the cache of the others was written with the other set. Within the
    original length there is but one. A `dynamic` rope changes beyond the model's own bound alone.

    Raises:
        ModelLoadFailed: sequences may become longer than a LongRoPE's original length.
    """
    text = config.get_text_config()
    own = _own_bound(text)
    longest = min(own, asked or own)
    original = _original_length(text)
    if original is not None and longest > original:
        raise ModelLoadFailed(
            f"rope type 'longrope' of model type '{text.model_type}' is served up to its original"
            f" {original} positions, beyond which a long sequence would change the answers beside it:"
            f" set PENSTOCK_MAX_MODEL_LEN to at most {original}, got {longest}"
        )
    return longest


def _own_bound(config: PreTrainedConfig) -> int:
    for name in ("max_position_embeddings", "n_positions"):
        bound = getattr(config, name, None)
        if bound:
            return int(bound)
    return 2048


def _original_length(config: PreTrainedConfig) -> int | None:
    """Return up to which length all LongRoPEs of a model are short; None: it has none."""
    given = getattr(config, "rope_parameters", None) or {}
    by_layer_type = [one for one in given.values() if isinstance(one, dict)]
    lengths = [
        int(rope["original_max_position_embeddings"])
        for rope in (given, *by_layer_type)
        if rope.get("rope_type") == "longrope"
    ]
    return min(lengths, default=None)
