"""Cleaning the cache removes the project's own, and nothing while a cluster runs from it."""

import re
from pathlib import Path

import pytest

from tests.support.cluster.packages import caches
from tests.support.cluster.places import Places


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """A cache with a tool, a link to it, a log, and a stranger's folder."""
    places = Places(tmp_path)
    (places.tools / "node-1").mkdir(parents=True)
    (places.tools / "node-1" / "node").write_bytes(b"x" * 50_000)
    places.commands.mkdir()
    (places.commands / "kubectl").symlink_to(places.tools / "node-1" / "node")
    (places.cache / "audit-charts").mkdir()
    (places.cache / "setup.log").write_text("pip")
    (places.cache / "photos").mkdir()
    return places


def test_cleaning_removes_what_the_project_put_there(
    places: Places, capsys: pytest.CaptureFixture[str]
) -> None:
    caches.clean(places)
    left = {path.name for path in places.cache.iterdir()}
    assert left == {"photos", "cluster.lock", "images.lock"}
    said = capsys.readouterr().err
    assert re.search(r"removed \d+K from ", said)
    assert caches.size(places) == "0"


def test_a_cache_that_a_cluster_runs_from_is_kept(places: Places) -> None:
    places.run.mkdir()
    with pytest.raises(caches.StillUpError, match="run `make cluster-down` first"):
        caches.clean(places)
    assert (places.tools / "node-1" / "node").exists()


def test_every_place_is_cleaned_or_gone_with_the_cluster(places: Places) -> None:
    own = {path.name for path in caches._own(places.cache)}
    assert {places.tools.name, places.commands.name} <= own
    kept = {places.images.name, places.containerd.name, places.go.name}
    assert kept <= set(caches.OWN)
