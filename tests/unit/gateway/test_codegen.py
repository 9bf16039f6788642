"""The committed descriptors are what their source says."""

import gzip
import os
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from penstock_gateway import codegen


@pytest.mark.long
def test_the_committed_descriptors_are_those_of_the_pinned_distribution(tmp_path: Path) -> None:
    requirements = re.findall(r"[\w-]+==[\d.]+", codegen.__doc__ or "")
    assert len(requirements) == 3
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile")
    target = tmp_path / "envoy.binpb.gz"
    subprocess.run((*pip, "--target", str(tmp_path / "wheels"), *requirements), check=True)
    words = (sys.executable, "-m", "penstock_gateway.codegen", str(target))
    path = os.pathsep.join([str(tmp_path / "wheels"), os.environ.get("PYTHONPATH", "")])
    subprocess.run(words, check=True, env={**os.environ, "PYTHONPATH": path})
    committed = (files("penstock_gateway.xds") / "envoy.binpb.gz").read_bytes()
    assert gzip.decompress(target.read_bytes()) == gzip.decompress(committed)
