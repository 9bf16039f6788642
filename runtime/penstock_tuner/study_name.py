"""`study_name`: names a study after everything that makes measurements incomparable. Does I/O."""

import argparse
import hashlib
import platform
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from penstock_api import names
from penstock_tuner.pod import pod_environment
from penstock_tuner.settings import TunedSettings, TuningObjective

PREFIXES = ("PENSTOCK_", "OMP_")
"""Prefixes of the variables that a runtime computes by."""
IDENTITY = (names.ENV_POOL, names.ENV_NAMESPACE, names.ENV_POD_NAME, names.ENV_POD_UID, names.ENV_PEER_URL)  # fmt: skip
"""Variables that change nothing but a pod's name and addresses: a Job's next pod continues the study."""
PACKAGES = ("penstock", "torch", "openvino", "onnxruntime", "transformers", "numpy")
CPUINFO = Path("/proc/cpuinfo")
NVIDIA_GPUS = Path("/proc/driver/nvidia/gpus")


def study_name(
    environ: Mapping[str, str],
    args: argparse.Namespace,
    objective: TuningObjective,
    *,
    generates: bool,
) -> str:
    """Return the name. Raises `OSError`: the file of the request cannot be read.

    It has the ranges as they are requested: how many rows memory holds differs from start to start.
    """
    request = None if args.request is None else args.request.read_text(encoding="utf-8")
    lengths = (args.prompt_tokens, args.output_tokens) if generates else args.rows
    load = (args.clients, lengths, args.rate, request, args.round_seconds)
    ends = (args.max_batch_size, args.max_delay_ms)
    lists = (args.backends, args.threads, args.disciplines, args.dtypes, args.batched_tokens)
    machine = ((*processor(), *gpus()), [_version(package) for package in PACKAGES])
    parts = (args.study, computing(environ), machine, objective, load, ends, lists)
    return hashlib.blake2b(repr(parts).encode(), digest_size=8).hexdigest()


def computing(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the variables of the measured pods on which measurements depend, in order."""
    pod = pod_environment(environ, TunedSettings(1, None))
    return sorted(
        (name, value)
        for name, value in pod.items()
        if name.startswith(PREFIXES) and name not in IDENTITY
    )


def processor(cpuinfo: Path = CPUINFO) -> tuple[str, ...]:
    """Return the architecture, and the model of the processor where the kernel names it."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = {line for line in lines if line.startswith(("model name", "CPU part"))}
    return (platform.machine(), *sorted(named))


def gpus(folder: Path = NVIDIA_GPUS) -> list[str]:
    """Return the models of NVIDIA's GPUs; none without their driver."""
    models = set[str]()
    for file in folder.glob("*/information"):
        with suppress(OSError):
            lines = file.read_text(encoding="utf-8").splitlines()
            models |= {line for line in lines if line.startswith("Model:")}
    return sorted(models)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
