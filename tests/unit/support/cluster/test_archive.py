"""Images written by hand, and the layers that need not travel."""

import hashlib
import json
import tarfile
from pathlib import Path

from tests.support.cluster.images import load
from tests.support.cluster.packages import archive

NAME = "localhost/thing:1"


def read(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        return {entry.name: member.read() for entry in tar if (member := tar.extractfile(entry))}


def test_the_same_files_make_the_same_layer() -> None:
    first = archive.layer({"bin/a": b"1", "bin/b": b"2"}, {"bin/c": "a"})
    assert first == archive.layer({"bin/b": b"2", "bin/a": b"1"}, {"bin/c": "a"})


def test_an_archive_holds_every_blob_under_its_own_digest(tmp_path: Path) -> None:
    path = tmp_path / "image.tar"
    archive.write_image(path, NAME, archive.layer({"bin/a": b"1"}, {}), {"Cmd": ["/bin/a"]})
    files = read(path)
    blobs = {name: blob for name, blob in files.items() if name.startswith("blobs/")}
    assert len(blobs) == 3
    for name, blob in blobs.items():
        assert name == f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}"
    (top,) = json.loads(files["index.json"])["manifests"]
    assert top["annotations"] == {archive.NAME_ANNOTATION: NAME}


def test_an_image_known_by_its_digest_alone_can_go_once_no_name_is_left() -> None:
    rows = [["localhost/a:1", "t", "m1"], ["sha256:c1", "t", "m1"], ["sha256:c2", "t", "m2"]]
    assert load.nameless(rows) == ["sha256:c2"]


def layout(tmp_path: Path, names: list[str]) -> Path:
    """An OCI layout of images that share one layer and have one of their own."""
    folder = tmp_path / "layout"
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def put(content: bytes) -> dict[str, str]:
        digest = hashlib.sha256(content).hexdigest()
        (blobs / digest).write_bytes(content)
        return {"digest": f"sha256:{digest}"}

    shared = put(b"shared")
    manifests = []
    for name in names:
        manifest = {
            "config": put(f"config {name}".encode()),
            "layers": [shared, put(name.encode())],
        }
        annotations = {load.REFERENCE: name}
        manifests.append({**put(json.dumps(manifest).encode()), "annotations": annotations})
    (folder / "index.json").write_text(json.dumps({"manifests": manifests}))
    return folder


def test_forgetting_an_image_keeps_the_layers_that_others_use(tmp_path: Path) -> None:
    folder = layout(tmp_path, ["a", "b"])
    load.keep_only(folder, {"b"})
    (kept,) = json.loads((folder / "index.json").read_text())["manifests"]
    assert kept["annotations"][load.REFERENCE] == "b"
    blobs = {blob.read_bytes() for blob in (folder / "blobs" / "sha256").iterdir()}
    assert b"shared" in blobs
    assert b"a" not in blobs
    assert set(load.blobs_of(folder, kept)) == {
        blob.name for blob in (folder / "blobs" / "sha256").iterdir()
    }
