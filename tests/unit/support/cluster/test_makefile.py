"""`make test` runs every part even after a failure; `make docker-images` builds as the Dockerfiles need it."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.cluster.places import CHECKOUT

PARTS = ["unit", "e2e"]
RUNS = {"test": ["unit", "e2e", "e2e"], "test-long": PARTS}
"""Runs of pytest in their order: `make test` runs end-to-end tests side by side, then those that run alone."""
NOT_MADE = [f"--old-file={target}" for target in ("setup", "tools", "lint", "cluster", "images")]


def make(target: str, folder: Path, failing: list[str]) -> tuple[int, list[str]]:
    """Make a target with a pytest that fails on some parts; return the exit status and the parts that ran."""
    pytest, ran = folder / "pytest", folder / "ran"
    pytest.write_text(
        f'#!/bin/bash\nfor part in {" ".join(PARTS)}; do\n  [[ "$*" != *tests/$part* ]] && continue\n'
        f'  echo "$part" >> {ran}\n  [[ " {" ".join(failing)} " != *" $part "* ]] || exit 3\ndone\n'
    )
    pytest.chmod(0o755)
    environ = {
        name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))
    }
    done = subprocess.run(
        ["make", *NOT_MADE, target, f"PYTEST={pytest}"],
        cwd=CHECKOUT,
        env=environ,
        capture_output=True,
        check=False,
    )
    return done.returncode, ran.read_text().split()


@pytest.mark.parametrize("failing", [[], ["unit"], ["e2e"], PARTS])
@pytest.mark.parametrize("make_target", ["test", "test-long"])
def test_every_part_runs_and_the_whole_fails_where_one_failed(
    tmp_path: Path, make_target: str, failing: list[str]
) -> None:
    status, ran = make(make_target, tmp_path, failing)
    assert ran == RUNS[make_target]
    assert bool(status) == bool(failing)


@pytest.mark.parametrize("torch", ["", "cpu"])
def test_images_are_built_by_buildkit_and_the_runtime_with_the_torch_that_was_named(
    tmp_path: Path, torch: str
) -> None:
    docker, ran = tmp_path / "docker", tmp_path / "ran"
    docker.write_text(f'#!/bin/bash\necho "$DOCKER_BUILDKIT $*" >> {ran}\n')
    docker.chmod(0o755)
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    argv = ["make", "docker-images", "TAG=1.2.3", f"TORCH={torch}"]
    subprocess.run(argv, cwd=CHECKOUT, env=environ, capture_output=True, check=True)
    builds = ran.read_text().splitlines()
    assert len(builds) == 4
    assert all(build.startswith("1 build ") for build in builds)
    of_cpu = [build for build in builds if "PIP_EXTRA_INDEX_URL=https://" in build]
    assert of_cpu == [build for build in builds if torch and "penstock-runtime:1.2.3" in build]
