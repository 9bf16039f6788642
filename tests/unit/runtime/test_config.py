"""The environment: read once, rejected by name."""

import json
import re
from pathlib import Path

import pytest

from penstock_runtime.config import read_config
from penstock_runtime.engine.placement import Placement
from penstock_runtime.errors import ConfigError

MODEL = json.dumps({"name": "m", "source": {"type": "Module", "module": {"factory": "a.b:c"}}})


def test_a_model_alone_is_enough() -> None:
    config = read_config({"PENSTOCK_MODEL": MODEL, "HOME": "/root"})
    assert config.model_name == "m"
    assert (config.http.client_port, config.http.cluster_port) == (8000, 8001)
    assert config.files.limits_file == Path("/etc/penstock/limits.json")
    assert not config.auth.insecure_control
    assert config.log.format == "text"


def test_what_the_operator_sets_is_read() -> None:
    config = read_config(
        {
            "PENSTOCK_MODEL": MODEL,
            "PENSTOCK_POOL": "chat",
            "PENSTOCK_NAMESPACE": "team-a",
            "PENSTOCK_POD_NAME": "chat-0",
            "PENSTOCK_POD_UID": "uid",
            "PENSTOCK_DRAIN_DEADLINE_SECONDS": "30",
        }
    )
    assert (config.pod.pool, config.pod.namespace, config.pod.uid) == ("chat", "team-a", "uid")
    assert (config.drain.deadline_seconds, config.log.format) == (30.0, "json")


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("PENSTOCK_COLOUR", "red", "PENSTOCK_COLOUR is not known"),
        ("PENSTOCK_MODEL", "{}", "PENSTOCK_MODEL: source"),
        ("PENSTOCK_MODEL", "{", "PENSTOCK_MODEL"),
        ("PENSTOCK_CLIENT_PORT", "eighty", "PENSTOCK_CLIENT_PORT='eighty'"),
        ("PENSTOCK_CLIENT_PORT", "65536", "between 0 and 65535"),
        ("PENSTOCK_INSECURE_CONTROL", "maybe", "must be true or false"),
        ("PENSTOCK_ACCEPT_SECONDS", "-1", "at least 0"),
        ("PENSTOCK_ACCEPT_SECONDS", "nan", "at least 0"),
        ("PENSTOCK_LOG_LEVEL", "LOUD", "must be one of DEBUG"),
        ("PENSTOCK_PLACEMENT", "Cloud", "must be one of Auto, Thread, Process"),
        (
            "PENSTOCK_COMPUTE_BACKEND",
            "Own",
            "PENSTOCK_COMPUTE_BACKEND='Own': must be one of Auto, OpenVINO, Torch",
        ),
        ("PENSTOCK_STEP", "Own", "PENSTOCK_STEP='Own': must be one of Auto, OpenVINO, Torch"),
        ("PENSTOCK_DTYPE", "int4", "must be one of auto, float32"),
        (
            "PENSTOCK_ATTENTION",
            "native",
            "PENSTOCK_ATTENTION is not known to this version: unset it",
        ),
    ],
)
def test_a_wrong_variable_is_rejected_by_name(name: str, value: str, says: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)):
        read_config({"PENSTOCK_MODEL": MODEL, name: value})


@pytest.mark.parametrize(
    ("value", "placement"),
    [("Auto", None), ("thread", Placement.THREAD), ("Process", Placement.PROCESS)],
)
def test_the_placement_can_be_configured(value: str, placement: Placement | None) -> None:
    config = read_config({"PENSTOCK_MODEL": MODEL, "PENSTOCK_PLACEMENT": value})
    assert config.engine.placement is placement


@pytest.mark.parametrize(
    ("former", "name", "value"),
    [
        ("PENSTOCK_STEP", "PENSTOCK_COMPUTE_BACKEND", "Torch"),
        ("PENSTOCK_STEP_DEPTH", "PENSTOCK_OVERLAP_SCHEDULING", "0"),
        ("PENSTOCK_BODY_SECONDS", "PENSTOCK_BODY_TIMEOUT_SECONDS", "7"),
    ],
)
def test_a_former_name_sets_the_same_field(former: str, name: str, value: str) -> None:
    plain = read_config({"PENSTOCK_MODEL": MODEL})
    by_alias = read_config({"PENSTOCK_MODEL": MODEL, former: value})
    assert by_alias == read_config({"PENSTOCK_MODEL": MODEL, name: value}) != plain


def test_a_variable_and_its_former_name_together_are_rejected() -> None:
    both = {"PENSTOCK_BODY_SECONDS": "7", "PENSTOCK_BODY_TIMEOUT_SECONDS": "8"}
    with pytest.raises(ConfigError, match="unset PENSTOCK_BODY_SECONDS"):
        read_config({"PENSTOCK_MODEL": MODEL, **both})


def test_a_missing_model_is_rejected() -> None:
    with pytest.raises(ConfigError, match="PENSTOCK_MODEL is not set"):
        read_config({})


def test_service_links_of_the_kubelet_are_not_ours() -> None:
    read_config(
        {
            "PENSTOCK_MODEL": MODEL,
            "PENSTOCK_DEMO_SERVICE_HOST": "10.0.0.1",
            "PENSTOCK_DEMO_SERVICE_PORT_HTTP": "8000",
            "PENSTOCK_DEMO_PORT": "tcp://10.0.0.1:8000",
            "PENSTOCK_DEMO_PORT_8000_TCP_ADDR": "10.0.0.1",
            "PENSTOCK_CLIENT_PORT": "tcp://10.0.0.1:8000",
        }
    )


def test_the_type_in_the_models_spec_precedes_the_variable() -> None:
    model = json.dumps({**json.loads(MODEL), "dtype": "Float16"})
    for variables in ({}, {"PENSTOCK_DTYPE": "float32"}):
        assert read_config({"PENSTOCK_MODEL": model, **variables}).engine.dtype == "float16"


def test_int8_is_not_for_text_generation() -> None:
    model = {**json.loads(MODEL), "dtype": "Int8"}
    assert read_config({"PENSTOCK_MODEL": json.dumps(model)}).engine.dtype == "int8"
    text = json.dumps({**model, "task": "TextGeneration"})
    with pytest.raises(ConfigError, match="dtype Int8 is for models that do not generate text"):
        read_config({"PENSTOCK_MODEL": text})


def test_how_a_generative_model_is_loaded_is_read_into_its_options() -> None:
    config = read_config(
        {
            "PENSTOCK_MODEL": MODEL,
            "PENSTOCK_DTYPE": "bfloat16",
            "PENSTOCK_CACHE_BYTES": "1048576",
            "PENSTOCK_OVERLAP_SCHEDULING": "1",
            "PENSTOCK_TRUSTED_PROXIES": "10.0.0.0/8, fd00::/8",
        }
    )
    assert (config.generation.step.dtype, config.generation.step.cache_bytes) == ("bfloat16", 2**20)
    assert config.engine.dtype == "bfloat16"
    assert config.generation.step.depth == 1
    assert [str(network) for network in config.auth.trusted_proxies] == ["10.0.0.0/8", "fd00::/8"]


def test_ranks_shorten_the_patience_with_a_step_unless_it_is_set() -> None:
    split = {"PENSTOCK_MODEL": MODEL, "PENSTOCK_TENSOR_PARALLEL": "2"}
    assert read_config(split).generation.step.tensor_parallel == 2
    assert read_config(split).engine.stuck_seconds == 8
    assert read_config({**split, "PENSTOCK_STUCK_SECONDS": "60"}).engine.stuck_seconds == 60
    assert read_config({**split, "PENSTOCK_TENSOR_PARALLEL": "1"}).engine.stuck_seconds == 30


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"PENSTOCK_TENSOR_PARALLEL": "17"}, "must be between 1 and 16"),
        (
            {"PENSTOCK_PLACEMENT": "Thread"},
            "Thread allows one rank, but PENSTOCK_TENSOR_PARALLEL 2 and PENSTOCK_PIPELINE_PARALLEL 1 make 2",
        ),
        ({"PENSTOCK_PIPELINE_PARALLEL": "9"}, "make 18 ranks: lower one of them"),
    ],
)
def test_ranks_that_cannot_be_are_rejected(changed: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        read_config({"PENSTOCK_MODEL": MODEL, "PENSTOCK_TENSOR_PARALLEL": "2", **changed})
