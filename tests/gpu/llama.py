"""The Llama of several parts, in bfloat16 and 1B-class on a device, and its decode work."""

from pathlib import Path

import torch

from tests.bench.generation import models
from tests.bench.generation.workload import Work, WorkSize, work
from tests.gpu.plan import Setting


def model_folder(setting: Setting) -> Path:
    """Return the folder of the model, whose weights the device draws in the type that it is served in."""
    shape = models.DEVICE_SHAPES[setting.size("1B", "tiny")]
    dtype = setting.size(torch.bfloat16, torch.float32)
    return models.write(shape, setting.models, dtype, setting.device)


def decode_size(setting: Setting) -> WorkSize:
    """Return the size of the decode work at every batch size."""
    return setting.size(WorkSize(8, 128, 1, 3), WorkSize(8, 6, 1, 1))


def decode_work(batch: int, setting: Setting) -> Work:
    """Return the decode work at `batch`: as many short prompts, and a long answer to each."""
    return work("decode", batch, models.VOCABULARY, decode_size(setting))


def answers(count: int, tokens: int) -> Work:
    """Return `count` short prompts with answers of `tokens`."""
    return work("decode", count, models.VOCABULARY, WorkSize(8, tokens, 1, 1))
