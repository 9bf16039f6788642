"""Typed settings of the runtime: the pod's variables, as the runtime itself reads them."""

from typing import Any

import pytest

from penstock_runtime.config import RuntimeConfig, read_config
from tests.unit.operator.decide.manifests.test_model_sources import container, env, hub
from tests.unit.operator.decide.world import World, pool

CHAT = {**hub(), "task": "TextGeneration"}
RUNTIME = {
    "log": {"level": "Debug", "format": "Text", "access": "Enabled"},
    "http": {
        "maxBodySize": "1Mi",
        "maxRequestMemory": "2Gi",
        "bodyTimeoutSeconds": 5,
        "connectionAgeSeconds": 300,
        "metrics": "Disabled",
        "trustedProxies": ["10.0.0.0/8", "fd00::/8"],
    },
}
GENERATION = {
    "contextLength": 4096,
    "kvCache": {"size": "1.5Gi", "hostSize": 1024},
    "maxSequences": 512,
    "maxRunSeconds": 30,
    "computeBackend": "Torch",
}


def world(**spec: Any) -> World:
    settled = World(pool=pool(**spec))
    settled.settle()
    return settled


def variables(**spec: Any) -> dict[str, str]:
    """Return the literal variables of the runtime's own prefix."""
    given = env(dict(world(**spec).template["spec"]))
    return {
        name: entry["value"]
        for name, entry in given.items()
        if name.startswith("PENSTOCK_") and "value" in entry
    }


def config(**spec: Any) -> RuntimeConfig:
    """Return the configuration that the runtime reads from the pod's variables."""
    return read_config({"PENSTOCK_POD_UID": "uid", **variables(**spec)})


def test_the_settings_of_every_task_reach_the_runtime() -> None:
    read = config(runtime=RUNTIME)
    assert (read.log.level, read.log.format, read.log.access_log) == ("DEBUG", "text", True)
    assert (read.http.max_body_bytes, read.queue.max_held_bytes) == (2**20, 2**31)
    assert (read.http.body_timeout_seconds, read.http.connection_age_seconds) == (5, 300)
    assert read.http.client_metrics is False
    assert [str(network) for network in read.auth.trusted_proxies] == ["10.0.0.0/8", "fd00::/8"]


def test_the_settings_of_generation_reach_the_runtime() -> None:
    read = config(model={**CHAT, "dtype": "BFloat16"}, generation=GENERATION)
    step = read.generation.step
    assert read.engine.dtype == step.dtype == "bfloat16"
    assert (step.max_model_len, step.max_running) == (4096, 512)
    assert (step.cache_bytes, step.host_cache_bytes) == (3 * 2**29, 1024)
    assert (step.compute, read.generation.max_run_seconds) == ("Torch", 30)
    split = config(
        model=CHAT, accelerator={"count": 8}, parallelism={"tensor": 4, "pipeline": 2}
    ).generation.step
    assert (split.tensor_parallel, split.pipeline_parallel, split.ranks) == (4, 2, 8)
    engines = config(accelerator={"count": 4}, parallelism={"data": 4}).engine
    assert engines.data_parallel == 4
    percent = config(model=CHAT, generation={"kvCache": {"freeMemoryPercent": 40}})
    assert percent.generation.step.cache_percent == 40


def test_a_field_that_is_unset_leaves_the_images_own_variable_in_force() -> None:
    plain = variables()
    assert variables(runtime={"log": {}, "http": {}}, generation={"kvCache": {}}) == plain
    assert {"PENSTOCK_ACCESS_LOG", "PENSTOCK_DTYPE", "PENSTOCK_CACHE_BYTES"} & set(plain) == set()


@pytest.mark.parametrize(
    "edit",
    [
        {"generation": {"contextLength": 2048}},
        {"runtime": {"log": {"access": "Enabled"}}},
        {"model": {**CHAT, "dtype": "Float16"}},
        {"parallelism": {"tensor": 1}},
        {"parallelism": {"data": 1}},
    ],
)
def test_an_edit_of_a_setting_restarts_the_pods_and_its_removal_returns_the_template(
    edit: dict[str, Any],
) -> None:
    settled = world(model=CHAT)
    before = settled.revision
    settled.edit_spec(**edit)
    settled.settle()
    assert settled.revision != before
    settled.edit_spec(model=CHAT, generation=None, runtime=None, parallelism=None)
    settled.settle()
    assert settled.revision == before


def test_the_container_has_one_entry_for_each_variable() -> None:
    entries = container(
        dict(world(model=CHAT, runtime=RUNTIME, generation=GENERATION).template["spec"])
    )["env"]
    names = [entry["name"] for entry in entries]
    assert len(names) == len(set(names))


def mounted_at(folder: str, **spec: Any) -> list[dict[str, Any]]:
    """Return the volumes that the container mounts at `folder`."""
    pod = dict(world(model=CHAT, accelerator={"count": 0}, **spec).template["spec"])
    mounts = container(pod)["volumeMounts"]
    names = [mount["name"] for mount in mounts if mount["mountPath"] == folder]
    return [volume for volume in pod["volumes"] if volume["name"] in names]


def test_ranks_exchange_data_through_shared_memory_that_the_runtimes_64_mib_do_not_limit() -> None:
    memory = {"name": "penstock-shm", "emptyDir": {"medium": "Memory"}}
    assert mounted_at("/dev/shm", parallelism={"pipeline": 2}) == [memory]  # noqa: S108
    assert mounted_at("/dev/shm", parallelism={"tensor": 1}) == []  # noqa: S108
    own: dict[str, Any] = {
        "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}],
        "container": {"volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}]},  # noqa: S108
    }
    assert mounted_at("/dev/shm", parallelism={"tensor": 2}, template=own) == [own["volumes"][0]]  # noqa: S108
