"""A leading rank in this process and its followers in others, connected by gloo on loopback."""

import multiprocessing
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.distributed as dist
from transformers import AutoModelForCausalLM

from penstock_runtime.engine.continuous.steps.options import StepOptions
from penstock_runtime.engine.continuous.steps.runner import StepThread
from penstock_runtime.engine.model import DeviceLost
from penstock_runtime.engine.placement import RankSeat
from penstock_runtime.models.decoders.ranks.open import open_follower, open_leader
from penstock_runtime.models.decoders.step import TorchStep
from tests.unit.runtime.models.decoders.tiny_models import config_of, quiet

auto: Any = AutoModelForCausalLM


def save_divisible(family: str, folder: Path, layers: int = 2) -> Path:
    """Write a random model of `family` with `layers`, whose heads four ranks divide."""
    quiet.disable_progress_bar()
    torch.manual_seed(0)
    config: Any = config_of(family)
    kept = config.to_diff_dict()
    if family != "gpt2":
        kept["num_key_value_heads"] = 4
    kept.pop("layer_types", None)
    kept["n_layer" if family == "gpt2" else "num_hidden_layers"] = layers
    auto.from_config(type(config)(**kept)).save_pretrained(folder)
    return folder


def follow(folder: Path, options: StepOptions, seat: RankSeat) -> None:
    """Run one follower until its leader leaves."""
    torch.set_num_threads(1)
    follower = open_follower(folder, options, seat)
    try:
        follower.follow()
    except DeviceLost:
        return


@dataclass
class Led:
    """The step of rank 0, and the thread that runs it."""

    step: TorchStep
    thread: StepThread


@contextmanager
def led(folder: Path, options: StepOptions) -> Iterator[Led]:
    """Open all ranks of `options`; at the end the followers must leave with the leader."""
    forked, ranks = multiprocessing.get_context("forkserver"), options.ranks
    forked.set_forkserver_preload([__name__])  # torch is imported once for all followers
    with TemporaryDirectory() as meeting, closing(StepThread()) as thread:
        seats = [
            RankSeat(rank, options.tensor_parallel, options.pipeline_parallel, Path(meeting))
            for rank in range(ranks)
        ]
        followers = [
            forked.Process(target=follow, args=(folder, options, seat), daemon=True)
            for seat in seats[1:]
        ]
        for process in followers:
            process.start()
        try:
            load = partial(open_leader, folder, options, "tiny", seats[0])
            yield Led(thread.submit(load).result(), thread)
        except BaseException:
            for process in followers:
                process.kill()
            raise
        finally:
            thread.submit(dist.destroy_process_group).result()
        for process in followers:
            process.join()
            assert process.exitcode == 0
