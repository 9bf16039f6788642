"""Fixtures: a hub on loopback, and a configuration with a cache in the test's folder."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest

from penstock_api.types.model import ModelSpec
from penstock_runtime.config import FilesConfig, RuntimeConfig
from penstock_runtime.sources import downloads
from tests.unit.runtime.sources.hub import Hub, serving

LARGE = bytes(range(256)) * 4096
"""1 MiB."""
FILES = {
    "config.json": b"{}",
    "model.safetensors": LARGE,
    "pytorch_model.bin": LARGE,
    "sub/model.pt2": LARGE[::-1],
}

Configure = Callable[..., RuntimeConfig]


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with serving(Hub(FILES)) as served:
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", served.url)
        template = served.url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(
            huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", template, raising=True
        )
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(huggingface_hub.constants, "DOWNLOAD_CHUNK_SIZE", 2**15)
        monkeypatch.setattr(downloads, "FIRST_PAUSE_SECONDS", 0.01)
        yield served


@pytest.fixture
def configured(tmp_path: Path) -> Configure:
    """Return a function that configures a pod for a source; all pods of a test share the cache."""

    def configure(member: str, **source: Any) -> RuntimeConfig:
        kind = {"huggingFace": "HuggingFace", "s3": "S3"}[member]
        cache = {"type": "PersistentVolumeClaim", "claimName": "cache"}
        fields = {"cache": cache, **source}
        program = str(fields.get("path", "")).endswith(".pt2")
        spec = {
            "task": "Tensor" if program else "Embedding",
            "source": {"type": kind, member: fields},
        }
        (tmp_path / "cache").mkdir(exist_ok=True)
        return RuntimeConfig(
            model=ModelSpec.model_validate(spec),
            files=FilesConfig(
                model_folder=tmp_path / "cache", fetched_folder=tmp_path / "scratch" / "model"
            ),
        )

    return configure
