"""User-supplied models: an exported program on a claim, and a Python factory in a ConfigMap."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from tritonclient import http as triton

from tests.e2e.conftest import MakePool
from tests.support.kube.api import Api, Object
from tests.support.kube.pools import PoolHandle, until

ROWS = np.arange(12, dtype=np.float32).reshape(3, 4)
FACTORY = """
import torch

class Triple(torch.nn.Module):
    penstock_inputs = [("X", "FP32", [-1, 4])]
    penstock_outputs = [("Y", "FP32", [-1, 4])]

    def forward(self, x):
        return 3 * x

def create():
    return Triple()
"""


class Halve(torch.nn.Module):
    """A module that halves its input; the test exports it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / 2


def exported(module: torch.nn.Module, file: Path) -> None:
    """Export a program for any number of rows of 4 columns."""
    rows = torch.export.Dim("rows", min=1, max=64)
    program = torch.export.export(module, (torch.ones(2, 4),), dynamic_shapes={"x": {0: rows}})
    torch.export.save(program, file)
    file.chmod(0o644)


def infer(
    pool: PoolHandle, name: str, output: str
) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """Send `ROWS` and return the output."""
    client = triton.InferenceServerClient(pool.url().removeprefix("http://"))
    given = triton.InferInput(name, list(ROWS.shape), "FP32")
    given.set_data_from_numpy(ROWS)
    answered: np.ndarray[tuple[int, ...], np.dtype[np.float32]] = client.infer(
        pool.name, [given]
    ).as_numpy(output)
    client.close()
    return answered


@pytest.fixture
def volume(api: Api, namespace: str) -> Iterator[Path]:
    """A folder on the node behind a PersistentVolume that is reserved for this test's claim."""
    folder = Path("/var/tmp") / f"penstock-{namespace}"  # noqa: S108 - a name of the test's own
    folder.mkdir(mode=0o755)
    claim = {"namespace": namespace, "name": "models"}
    spec = {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadOnlyMany"], "claimRef": claim,
        "hostPath": {"path": str(folder)}, "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": "",
    }  # fmt: skip
    name = f"models-{namespace}"
    volume_manifest = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": spec,
    }
    api.create(volume_manifest)
    yield folder
    api.delete(f"/api/v1/persistentvolumes/{name}")
    shutil.rmtree(folder)


def claim(namespace: str) -> Object:
    """Return the claim that binds the volume."""
    resources = {"requests": {"storage": "1Gi"}}
    return {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "models", "namespace": namespace},
        "spec": {"accessModes": ["ReadOnlyMany"], "storageClassName": "", "resources": resources},
    }  # fmt: skip


@pytest.mark.own_cluster
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_a_pool_reports_a_missing_claim_and_then_serves_the_program_on_it(
    api: Api, make_pool: MakePool, volume: Path
) -> None:
    exported(Halve(), volume / "halve.pt2")
    source = {"claimName": "models", "path": "halve.pt2"}
    pool = make_pool(
        "halve",
        model={"source": {"type": "PersistentVolumeClaim", "persistentVolumeClaim": source}},
    )
    until("the scheduler reports it", lambda: any(map(is_unschedulable, pool.pods())))
    pool.await_condition("Ready", "False", "VolumeNotFound", seconds=10)
    assert '"models" not found' in pool.condition("Ready")["message"]
    api.create(claim(pool.namespace))
    pool.await_ready(1)
    np.testing.assert_array_equal(infer(pool, "x", "output"), ROWS / 2)


def is_unschedulable(pod: Object) -> bool:
    """Return whether the scheduler reports a pod as unschedulable."""
    conditions = pod["status"].get("conditions", [])
    return any(condition.get("reason") == "Unschedulable" for condition in conditions)


def config_map(namespace: str, text: str) -> Object:
    """Return the ConfigMap with the factory's code."""
    metadata = {"name": "code", "namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {"triple.py": text},
    }


TEMPLATE = {
    "volumes": [{"name": "code", "configMap": {"name": "code"}}],
    "container": {
        "env": [{"name": "PYTHONPATH", "value": "/code"}],
        "volumeMounts": [{"name": "code", "mountPath": "/code", "readOnly": True}],
    },
}
MODEL = {"source": {"type": "Module", "module": {"factory": "triple:create"}}}


def test_a_factory_from_a_config_map_on_the_python_path_is_served(
    api: Api, make_pool: MakePool, namespace: str
) -> None:
    api.create(config_map(namespace, FACTORY))
    pool = make_pool("triple", model=MODEL, template=TEMPLATE)
    pool.await_ready(1)
    np.testing.assert_array_equal(infer(pool, "X", "Y"), 3 * ROWS)


@pytest.mark.long
def test_a_broken_factory_recovers_when_its_config_map_is_corrected(
    api: Api, make_pool: MakePool, namespace: str
) -> None:
    broken = config_map(namespace, "raise RuntimeError('no such weights')")
    api.create(broken)
    pool = make_pool("triple", model=MODEL, template=TEMPLATE)
    pool.await_condition("Ready", "False", "ModelLoadFailed", seconds=60)
    assert "no such weights" in pool.condition("Ready")["message"]
    api.apply(config_map(namespace, FACTORY))
    pool.await_ready(1, seconds=400)  # the kubelet's volume sync, then the restart back-off
    np.testing.assert_array_equal(infer(pool, "X", "Y"), 3 * ROWS)
