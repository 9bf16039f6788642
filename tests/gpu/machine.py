"""`python -m tests.gpu.machine FOLDER`: prints and writes what a machine has: versions, driver, card, and what is missing."""

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
import warnings
from pathlib import Path

NEEDED = (
    "torch", "transformers", "tokenizers", "safetensors", "aiohttp", "numpy", "jinja2", "pydantic",
    "msgspec", "httptools", "uvloop", "llguidance", "orjson", "pyjwt", "prometheus-client",
    "cryptography", "nvidia-ml-py",
)  # fmt: skip
OPTIONAL = ("matplotlib", "triton", "torch-tensorrt", "flashinfer-python")
_QUERY = "name,driver_version,memory.total,mig.mode.current,compute_mode,clocks.max.sm,power.limit"
_SMI = ("nvidia-smi", f"--query-gpu={_QUERY}", "--format=csv")
SMI_SECONDS = 15.0


def main() -> int:
    """Look, print, and write `machine.json`."""
    facts: dict[str, object] = {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "cores": len(os.sched_getaffinity(0)),
        "packages": {name: version(name) for name in (*NEEDED, *OPTIONAL)},
        "missing": [name for name in NEEDED if version(name) is None],
        "nvidia-smi": _smi(),
        "cuda": {"available": "not known: importing torch took too long"},
    }
    file = Path(sys.argv[1]) / "machine.json"
    file.write_text(json.dumps(facts, indent=1) + "\n")
    facts["cuda"] = _cuda()
    file.write_text(json.dumps(facts, indent=1) + "\n")
    print(text(facts), flush=True)
    return 0


def version(package: str) -> str | None:
    """Return the version of an installed package; None if it is not there."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _smi() -> str:
    try:
        done = subprocess.run(_SMI, capture_output=True, text=True, timeout=SMI_SECONDS, check=False)  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"nvidia-smi does not answer: {error}"
    return (done.stdout or done.stderr).strip()


def _cuda() -> dict[str, object]:
    """Return what torch says of the device, or why it has none."""
    try:
        import torch
        import transformers  # noqa: F401 - read from the disk once, before any part is timed
    except ImportError as error:
        return {"available": False, "why": str(error)}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        available = torch.cuda.is_available()
    if not available:
        why = str(said[0].message) if said else "torch sees no CUDA device"
        return {"available": False, "why": why.splitlines()[0], "built for": torch.version.cuda}
    properties = torch.cuda.get_device_properties(0)
    free, total = torch.cuda.mem_get_info(0)
    return {
        "available": True,
        "built for": torch.version.cuda,
        "name": properties.name,
        "capability": f"{properties.major}.{properties.minor}",
        "multiprocessors": properties.multi_processor_count,
        "free_gibibytes": round(free / 2**30, 1),
        "total_gibibytes": round(total / 2**30, 1),
    }


def text(facts: dict[str, object]) -> str:
    """Return what was found as lines."""
    packages: dict[str, str | None] = facts["packages"]  # type: ignore[assignment]
    have = ", ".join(f"{name} {version}" for name, version in packages.items() if version)
    lines = [
        f"{facts['date']}, Python {facts['python']}, kernel {facts['kernel']}, {facts['cores']} cores",
        have,
        str(facts["nvidia-smi"]),
        ", ".join(f"{name} {value}" for name, value in facts["cuda"].items()),  # type: ignore[attr-defined]
    ]
    missing: list[str] = facts["missing"]  # type: ignore[assignment]
    if missing:
        lines.append(
            f"missing: {', '.join(missing)}. Run `make gpu-bundle` where there is a network, and copy build/gpu-bundle"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
