"""An applied pool becomes Ready and answers unmodified clients through its Service."""

import numpy as np
import pytest
from tritonclient import http as triton

from tests.support.kube.pools import PoolHandle
from tests.support.load.samples import answer

ROWS = np.random.default_rng(5).uniform(-1, 1, (3, 8)).astype(np.float32)
EXPECTED = np.array([answer(row.tolist()) for row in ROWS], dtype=np.float32)


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "json"])
def test_unmodified_tritonclient_gets_correct_answers_through_the_service(
    steady: PoolHandle, binary: bool
) -> None:
    client = triton.InferenceServerClient(steady.url().removeprefix("http://"))
    given = triton.InferInput("INPUT", list(ROWS.shape), "FP32")
    given.set_data_from_numpy(ROWS, binary_data=binary)
    wanted = triton.InferRequestedOutput("OUTPUT", binary_data=binary)
    answered = client.infer(steady.name, [given], outputs=[wanted])
    np.testing.assert_allclose(answered.as_numpy("OUTPUT"), EXPECTED, rtol=1e-4, atol=1e-4)
    client.close()


def test_the_metadata_describes_the_model(steady: PoolHandle) -> None:
    client = triton.InferenceServerClient(steady.url().removeprefix("http://"))
    assert client.is_server_ready()
    assert client.is_model_ready(steady.name)
    described = client.get_model_metadata(steady.name)
    assert described["platform"] == "penstock_emulated_accelerator"
    assert [tensor["name"] for tensor in described["inputs"]] == ["INPUT"]
    client.close()


def test_the_status_counts_and_selects_the_pods(steady: PoolHandle) -> None:
    table = steady.api.request("GET", steady.path)
    assert table["status"]["readyReplicas"] == 2
    assert steady.condition("Ready")["status"] == "True"
    assert table["status"]["selector"] == f"penstock.dev/pool-uid={table['metadata']['uid']}"


def test_every_condition_has_a_reason(steady: PoolHandle) -> None:
    conditions = {condition["type"]: condition for condition in steady.status()["conditions"]}
    assert {"Ready", "Progressing", "UpToDate", "Scaling", "LimitsApplied", "MetricsAvailable", "PolicyApplied"} <= set(conditions)  # fmt: skip
    assert all(condition["reason"] for condition in conditions.values())
