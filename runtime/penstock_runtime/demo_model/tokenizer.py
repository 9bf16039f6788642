"""A byte-level tokenizer for the corpus: any text in any language has tokens, its own words have few."""

import json
from pathlib import Path
from typing import Final

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from penstock_runtime.demo_model.text import CHAT_TEMPLATE, END, SPECIAL, exchanges

VOCABULARY: Final = 1024


def make_tokenizer() -> Tokenizer:
    """Return the tokenizer; the same text makes the same one."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=list(SPECIAL),
        show_progress=False,
    )
    text = (part for one in exchanges() for part in (one.question, one.answer))
    made.train_from_iterator(text, trainer)
    return made


def save_tokenizer(made: Tokenizer, folder: Path) -> None:
    """Write `tokenizer.json` and what transformers reads beside it."""
    made.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END,
        "pad_token": END,
        "chat_template": CHAT_TEMPLATE,
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
