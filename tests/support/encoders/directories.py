"""Text encoders of random weights in Hugging Face directories, for tests and benchmarks."""

import json
from pathlib import Path
from typing import Any, Final

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors

SPECIAL: Final = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS: Final = 1000
"""`w0` to `w999`: a text of n of them has n + 2 tokens."""
FAMILIES: Final = {
    "bert": (transformers.BertConfig, transformers.BertModel),
    "roberta": (transformers.RobertaConfig, transformers.RobertaModel),
    "distilbert": (transformers.DistilBertConfig, transformers.DistilBertModel),
    "electra": (transformers.ElectraConfig, transformers.ElectraModel),
}
CLASSIFIERS: Final = {
    "bert": transformers.BertForSequenceClassification,
    "roberta": transformers.RobertaForSequenceClassification,
    "distilbert": transformers.DistilBertForSequenceClassification,
    "electra": transformers.ElectraForSequenceClassification,
}


def tokenizer() -> Tokenizer:
    """Return a tokenizer of whole words."""
    words = [*SPECIAL, *(f"w{number}" for number in range(WORDS))]
    built = Tokenizer(
        models.WordLevel({word: at for at, word in enumerate(words)}, unk_token="[UNK]")  # noqa: S106
    )
    built.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    built.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return built


def config(family: str, width: int, layers: int, heads: int, max_tokens: int, **more: Any) -> Any:
    """Return a family's configuration from sizes that apply to every family."""
    shape: dict[str, Any] = {"vocab_size": len(SPECIAL) + WORDS, "pad_token_id": 0, **more}
    if family == "distilbert":
        shape |= {"dim": width, "n_layers": layers, "n_heads": heads, "hidden_dim": 4 * width}
    else:
        shape |= {"hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads}
        shape |= {"intermediate_size": 4 * width}
    spare = 1 if family == "roberta" else 0  # its first position comes after padding's
    return FAMILIES[family][0](max_position_embeddings=max_tokens + spare, **shape)


def write(
    folder: Path,
    family: str = "bert",
    *,
    width: int = 32,
    layers: int = 2,
    heads: int = 2,
    max_tokens: int = 64,
    labels: tuple[str, ...] = (),
    seed: int = 0,
) -> Path:
    """Write an encoder, or a classifier if `labels` are given, into `folder`; return the folder."""
    torch.manual_seed(seed)
    more = {"id2label": dict(enumerate(labels))} if labels else {}
    shape = config(family, width, layers, heads, max_tokens, **more)
    model = (CLASSIFIERS[family] if labels else FAMILIES[family][1])(shape)
    for parameter in model.parameters():  # the initial scale of 0.02 makes all texts alike
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=1.7 * width**-0.5)
    model.save_pretrained(folder)
    tokenizer().save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": max_tokens}))
    return folder
