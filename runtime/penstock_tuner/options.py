"""Options of `python -m penstock_tuner`."""

import argparse
from enum import StrEnum
from pathlib import Path
from typing import Any

from penstock_api.pod_contract import Discipline
from penstock_api.types.model import ModelBackend, ModelDType
from penstock_api.types.objectives import ObjectiveMetric
from penstock_api.types.runtime import BackendName
from penstock_tuner.errors import NoObjective, WrongOption
from penstock_tuner.settings import OUTPUT_TOKENS, PROMPT_TOKENS, LatencyLimit, TuningObjective


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    options = argparse.ArgumentParser(
        prog="python -m penstock_tuner",
        description="Search the batch settings of the model in PENSTOCK_MODEL on this machine.",
    )
    options.add_argument(
        "--objective-ms", type=positive(int), help="latency of a request that counts as on time"
    )
    options.add_argument(
        "--first-token-ms",
        type=positive(int),
        help="time to the first token that counts as on time, of a model that generates text",
    )
    options.add_argument(
        "--output-token-ms",
        type=positive(int),
        help="mean time per token after the first that counts as on time",
    )
    options.add_argument(
        "--percent",
        type=_percent,
        default=99.0,
        help="percentage of requests that must be on time",
    )
    options.add_argument(
        "--minutes", type=positive(float), default=5.0, help="time for all measurements"
    )
    _load(options.add_argument_group("load"))
    _space(options.add_argument_group("settings that are searched"))
    _study(options.add_argument_group("study"))
    return options


def _load(options: Any) -> None:
    options.add_argument(
        "--clients", type=positive(int), default=32, help="clients of the closed loop"
    )
    options.add_argument(
        "--rows", type=counts, default=(1,), help="rows of the requests, sent in turn, e.g. 1,8"
    )
    options.add_argument(
        "--prompt-tokens",
        type=counts,
        default=PROMPT_TOKENS,
        help="tokens of the prompts of a model that generates text, sent in turn, e.g. 64,512",
    )
    options.add_argument(
        "--output-tokens",
        type=counts,
        default=OUTPUT_TOKENS,
        help="tokens of its answers, in turn, e.g. 32,256",
    )
    options.add_argument(
        "--rate",
        type=positive(float),
        help="requests per second of an open loop that settings must also serve on time",
    )
    options.add_argument(
        "--request",
        type=Path,
        help="file with an Open Inference request; default: rows by the model's metadata",
    )


def _space(options: Any) -> None:
    options.add_argument(
        "--max-batch-size",
        type=positive(int),
        help="upper end of the batch cap; default: that of the pod",
    )
    options.add_argument(
        "--max-delay-ms",
        type=positive(int),
        help="upper end of the batching window; default: half of the objective",
    )
    options.add_argument(
        "--backends",
        type=words,
        default=(),
        help="backends to search, e.g. Eager,OpenVINO; default: that of the model",
    )
    options.add_argument(
        "--threads",
        type=counts,
        default=(),
        help="numbers of threads to search, e.g. 1,2; default: as in the environment",
    )
    options.add_argument(
        "--disciplines",
        type=words,
        default=(),
        help="queueing disciplines to search, e.g. FirstInFirstOut,ShortestJobFirst",
    )
    options.add_argument(
        "--dtypes",
        type=words,
        default=(),
        help="data types to search, e.g. Float32,BFloat16",
    )
    options.add_argument(
        "--batched-tokens",
        type=counts,
        default=(),
        help="tokens of a step to search, of a model that generates text, e.g. 256,1024",
    )


def _study(options: Any) -> None:
    options.add_argument(
        "--folder",
        type=Path,
        default=Path("build/tune"),
        help="folder of the study and the results",
    )
    options.add_argument(
        "--study", default="", help="name for measurements that must not be mixed with others"
    )
    options.add_argument(
        "--resume", type=Path, help="record of an earlier tuner's trials; absent: none"
    )
    options.add_argument(
        "--events", action="store_true", help="write one JSON object a line to standard output"
    )
    options.add_argument(
        "--round-seconds",
        type=positive(float),
        default=2.0,
        help="length of the first of three rounds of a trial",
    )
    options.add_argument("--seed", type=int, default=1)


def positive(kind: type[int] | type[float]) -> Any:
    """Return a parser of numbers above 0."""

    def parse(text: str) -> float:
        try:
            number = kind(text)
        except ValueError:
            number = kind(0)
        if not 0 < number < float("inf"):
            expected = "an integer" if kind is int else "a number"
            raise argparse.ArgumentTypeError(f"{text!r} must be {expected} above 0, such as 8")
        return number

    return parse


def objective(given: argparse.Namespace) -> TuningObjective:
    """Return the objective: figures of latency are those of the first of its limits.

    Raises:
        NoObjective: none is given.
    """
    offered = (
        (ObjectiveMetric.REQUEST_LATENCY, given.objective_ms),
        (ObjectiveMetric.TIME_TO_FIRST_TOKEN, given.first_token_ms),
        (ObjectiveMetric.TIME_PER_OUTPUT_TOKEN, given.output_token_ms),
    )
    limits = [LatencyLimit(metric, limit) for metric, limit in offered if limit is not None]
    if not limits:
        raise NoObjective(
            "no objective: give --objective-ms, --first-token-ms or --output-token-ms"
        )
    first, *more = limits
    return TuningObjective(first.milliseconds, given.percent, first.metric, tuple(more))


def check_words(given: argparse.Namespace, *, generates: bool) -> None:
    """Raise `WrongOption` if a list has a word that is no backend, discipline or data type of a pool."""
    backends: type[StrEnum] = BackendName if generates else ModelBackend
    for option, known in (("backends", backends), ("disciplines", Discipline), ("dtypes", ModelDType)):  # fmt: skip
        for word in getattr(given, option):
            if word not in list(known):
                raise WrongOption(f"--{option}: {word!r} is not known: use {', '.join(known)}")


def check_threads(given: argparse.Namespace, most: int) -> None:
    """Raise `WrongOption` if a number of threads is above `most`, at which a pod would silently stop."""
    for threads in given.threads:
        if threads > most:
            allowed = f"1 to {most}" if most > 1 else "1"
            raise WrongOption(
                f"--threads: {threads} is above the threads that an engine of the pod can use: use {allowed}"
            )


def _percent(text: str) -> float:
    number = float(positive(float)(text))
    if number > 100:
        raise argparse.ArgumentTypeError(f"{text!r} must be at most 100")
    return number


def words(text: str) -> tuple[str, ...]:
    """Return the words of a list with commas."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def counts(text: str) -> tuple[int, ...]:
    """Return the numbers above 0 of a list with commas."""
    return tuple(int(positive(int)(word)) for word in words(text))
