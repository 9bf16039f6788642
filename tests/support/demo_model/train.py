"""Training of the demonstration model: a Llama of a million parameters that memorizes the corpus."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import torch
from tokenizers import Tokenizer
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from tests.support.demo_model.text import END, exchanges
from tests.support.demo_model.tokenizer import make_tokenizer, save_tokenizer

POSITIONS: Final = 1024
ROWS: Final = 12
LEARNING_RATE: Final = 4e-3
GOOD_LOSS: Final = 0.04
"""Loss at which the corpus is memorized and training ends."""


def make_model(seed: int = 0) -> LlamaForCausalLM:
    """Return the untrained model."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=1024,
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=POSITIONS,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=0,
        pad_token_id=0,
    )
    return LlamaForCausalLM(config)


def train(
    model: LlamaForCausalLM,
    tokenizer: Tokenizer,
    seconds: float,
    clock: Callable[[], float] = time.process_time,
) -> tuple[int, float]:
    """Train for `seconds` of processor time, or until the loss is good; return the number of steps and the last loss."""
    rows = [tokenizer.encode(turn.written()).ids for turn in exchanges()]
    optimizer = torch.optim.AdamW(model.parameters(), LEARNING_RATE, weight_decay=0.01)
    draw = torch.Generator().manual_seed(0)
    began, step, loss = clock(), 0, float("inf")
    while (spent := clock() - began) < seconds and loss > GOOD_LOSS:
        rate = LEARNING_RATE * min(1.0, (step + 1) / 20) * max(0.05, 1 - spent / seconds)
        for group in optimizer.param_groups:
            group["lr"] = rate
        chosen = torch.randperm(len(rows), generator=draw)[:ROWS].tolist()
        ids, labels = _padded([rows[index] for index in chosen])
        output: Any = model(input_ids=ids, labels=labels, attention_mask=(labels != -100).long())
        output.loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        newest = float(output.loss.detach())
        loss = newest if step == 0 else 0.8 * loss + 0.2 * newest
        step += 1
    return step, loss


def _padded(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    """Return ids and labels of equal length; padding has no label."""
    longest = max(map(len, rows))
    ids = torch.zeros((len(rows), longest), dtype=torch.long)
    labels = torch.full((len(rows), longest), -100)
    for place, row in enumerate(rows):
        ids[place, : len(row)] = torch.tensor(row)
        labels[place, : len(row)] = torch.tensor(row)
    return ids, labels


def make_demo_model(folder: Path, seconds: float) -> tuple[int, float]:
    """Write a trained model with its tokenizer to `folder`; return the number of steps and the last loss."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = make_tokenizer()
    model = make_model()
    steps, loss = train(model.train(), tokenizer, seconds)
    model.generation_config.eos_token_id = tokenizer.token_to_id(END)
    model.save_pretrained(folder)
    save_tokenizer(tokenizer, folder)
    for file in folder.iterdir():
        file.chmod(0o644)  # safetensors writes for its user alone; a pool's may be another
    return steps, loss
