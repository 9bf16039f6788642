"""Archives of `docker save`, of before Docker 25 and since, become one image layout."""

import hashlib
import json
from pathlib import Path

import pytest

from tests.support.cluster.images import load
from tests.support.cluster.images.saved import into_layout

LAYERS = {"one": b"a layer", "two": b"\x1f\x8b a packed one"}
CONFIG = json.dumps({"architecture": "amd64"}).encode()


def saved(folder: Path, names: dict[str, str], config: str) -> Path:
    for name, layer in LAYERS.items():
        file = folder / names[name]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(layer)
    (folder / config).write_bytes(CONFIG)
    described = [{"Config": config, "RepoTags": ["x:1"], "Layers": [names[n] for n in LAYERS]}]
    (folder / "manifest.json").write_text(json.dumps(described))
    return folder


EARLIER = ({"one": "f1/layer.tar", "two": "f2/layer.tar"}, "c0ffee.json")
SINCE_25 = ({"one": "blobs/sha256/1", "two": "blobs/sha256/2"}, "blobs/sha256/3")


@pytest.mark.parametrize(("names", "config"), [EARLIER, SINCE_25])
def test_every_blob_is_stored_under_its_digest(
    tmp_path: Path, names: dict[str, str], config: str
) -> None:
    layout = tmp_path / "layout"
    into_layout(saved(tmp_path / "saved", names, config), "localhost/x:1", layout)
    (top,) = json.loads((layout / "index.json").read_text())["manifests"]
    digests = [hashlib.sha256(content).hexdigest() for content in (CONFIG, *LAYERS.values())]
    assert load.blobs_of(layout, top)[1:] == digests
    manifest = json.loads((layout / "blobs/sha256" / load.blobs_of(layout, top)[0]).read_text())
    assert [layer["mediaType"].endswith("gzip") for layer in manifest["layers"]] == [False, True]
    for blob in (layout / "blobs" / "sha256").iterdir():
        assert hashlib.sha256(blob.read_bytes()).hexdigest() == blob.name


def test_a_layout_keeps_several_images_and_a_newer_one_replaces_its_name(
    tmp_path: Path,
) -> None:
    layout = tmp_path / "layout"
    for turn, image in enumerate(("localhost/x:1", "localhost/y:1", "localhost/x:1")):
        into_layout(saved(tmp_path / f"saved{turn}", *EARLIER), image, layout)
    load.keep_only(layout, {"localhost/y:1", "localhost/x:1"})
    index = json.loads((layout / "index.json").read_text())["manifests"]
    assert [item["annotations"][load.REFERENCE] for item in index] == [
        "localhost/y:1",
        "localhost/x:1",
    ]
