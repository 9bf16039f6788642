"""`revision`: identifies the weights of a generative model. Imports no torch."""

import hashlib
import json
from pathlib import Path

_HASHED_BYTES = 1 << 20
_SAMPLES = 64
_SAMPLE_BYTES = 4096
"""Bytes hashed at the start of each weight file, in addition to its size: enough to distinguish checkpoints."""


def revision(folder: Path) -> str:
    """Return an identifier of the weights: a hash of the config, and of the size, beginning and samples of each weight file.

    The beginning of a file with many tensors lists them and holds no weight.
    """
    digest = hashlib.sha256(json.dumps(json.loads((folder / "config.json").read_text())).encode())
    for file in sorted(folder.glob("*.safetensors")):
        size = file.stat().st_size
        digest.update(f"{file.name} {size}".encode())
        with file.open("rb") as opened:
            digest.update(opened.read(_HASHED_BYTES))
            for sample in range(_SAMPLES):
                opened.seek(size * sample // _SAMPLES)
                digest.update(opened.read(_SAMPLE_BYTES))
    return digest.hexdigest()[:16]
