"""Process of one part: `python -m tests.gpu.part NAME FOLDER SECONDS [--rehearse]`."""

import argparse
import importlib
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch

from tests.gpu.plan import PARTS, Part, Setting
from tests.gpu.record import Outcome, Record, package_missing

WHOLE = "the part itself"


def main() -> int:
    """Run the part; the exit status is 0 if it could write its record, however it ended."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.part", description=__doc__)
    parser.add_argument("name", choices=[part.name for part in PARTS])
    parser.add_argument("folder", type=Path)
    parser.add_argument("seconds", type=float)
    parser.add_argument("--rehearse", action="store_true")
    given = parser.parse_args()
    part = next(part for part in PARTS if part.name == given.name)
    cuda = torch.cuda.is_available() and not given.rehearse
    device = torch.device("cuda", 0) if cuda else torch.device("cpu")
    deadline = time.monotonic() + given.seconds
    setting = Setting(device, given.rehearse, given.folder, deadline)
    record = Record(part.name, given.folder / f"{part.name}.json", rehearsal=given.rehearse)
    record.write()
    missing = lacking(part, setting)
    if missing:
        record.end(Outcome.MISSING, missing)
        return 0
    try:
        module = importlib.import_module(f"tests.gpu.parts.{part.name}")
    except ImportError as error:
        record.end(Outcome.MISSING, package_missing(error))
        return 0
    with record.section(WHOLE):
        module.run(setting, record)
    failed = record.failures or WHOLE in record.missing
    record.end(Outcome.FAILED if failed else Outcome.COMPLETE)
    return 0


def lacking(part: Part, setting: Setting) -> str:
    """Return what this machine lacks for the part; empty if nothing."""
    if setting.rehearsal:
        return ""
    if not setting.on_cuda:
        return "no CUDA device: see what was found above, or try `make gpu-rehearsal` on a CPU"
    free, total = (size / 2**30 for size in torch.cuda.mem_get_info(setting.device))
    if free < part.gibibytes:
        return f"{part.gibibytes:g} GiB of free device memory are needed, {free:.1f} of {total:.1f} are free"
    return ""


if __name__ == "__main__":
    sys.exit(main())
