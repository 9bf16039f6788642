"""The chart on a control plane of its own, which no CRD was ever installed on."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.kube.install import ROOT
from tests.support.kube.target import Target

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(Target.from_env().foreign, reason="needs the programs of the test cluster"),
]


def test_a_first_installation_brings_the_crds_and_an_upgrade_the_defaults_of_pools(
    tmp_path: Path,
) -> None:
    program = (sys.executable, "-m", "tests.integration.api.first_install", str(tmp_path))
    done = subprocess.run(
        ("unshare", "--net", *program),
        cwd=ROOT, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    outcome = json.loads(done.stdout.splitlines()[-1])
    assert (
        "poolDefaults is set and the CRDs are not served yet: install without"
        in (outcome["rejection"])
    )
    assert outcome["upgraded"] is True
    assert outcome["defaults"] == {"scaling": {"minReplicas": 2}}
