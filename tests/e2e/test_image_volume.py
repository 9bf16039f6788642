"""A model in an OCI image that the kubelet mounts as a volume, without registry, download or claim."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.e2e.conftest import MakePool
from tests.e2e.test_models import ROWS, Halve, exported, infer
from tests.support.cluster.host import sandbox
from tests.support.cluster.packages import archive
from tests.support.cluster.places import Places
from tests.support.kube.pools import PoolHandle

pytestmark = [
    pytest.mark.own_cluster,
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]


@pytest.fixture
def image(namespace: str, tmp_path: Path) -> Iterator[str]:
    """An image on the node with only a model program and no executable."""
    places, name = Places.from_env(), f"localhost/penstock-model:{namespace}"
    exported(Halve(), tmp_path / "halve.pt2")
    content = archive.layer({"programs/halve.pt2": (tmp_path / "halve.pt2").read_bytes()}, {})
    archive.write_image(tmp_path / "image.tar", name, content, {})
    sandbox.ctr(places, places.commands, "images", "import", tmp_path / "image.tar")
    yield name
    sandbox.ctr(places, places.commands, "images", "rm", name)


def source(reference: str) -> dict[str, object]:
    image = {"reference": reference, "pullPolicy": "Never", "path": "programs/halve.pt2"}
    return {"source": {"type": "Image", "image": image}}


def test_a_program_in_an_image_is_mounted_and_served(make_pool: MakePool, image: str) -> None:
    pool: PoolHandle = make_pool("halve", model=source(image))
    pool.await_ready(1)
    np.testing.assert_array_equal(infer(pool, "x", "output"), ROWS / 2)


def test_a_missing_image_is_reported_by_name(make_pool: MakePool, namespace: str) -> None:
    pool = make_pool("halve", model=source(f"localhost/penstock-model:not-{namespace}"))
    pool.await_condition("Ready", "False", "ImagePullFailed", seconds=60)
    assert f"not-{namespace}" in pool.condition("Ready")["message"]
