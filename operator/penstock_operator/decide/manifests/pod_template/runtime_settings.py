"""Environment variables of the typed settings of the runtime: `spec.runtime`, `spec.generation` and `spec.model.dtype`.

Only fields that are set become variables, so that an unset field leaves a variable of the image in force.
"""

from penstock_api import names
from penstock_api.types.fields import byte_count
from penstock_api.types.pool import PoolSpec
from penstock_api.types.runtime import (
    GenerationSpec,
    KvCache,
    RuntimeHttp,
    RuntimeLog,
    RuntimeSpec,
    Switch,
)
from penstock_operator.decide.manifests.metadata import Manifest


def runtime_settings(spec: PoolSpec) -> list[Manifest]:
    """Return one entry for each setting of the pool, as the runtime's configuration reads it."""
    runtime, generation = spec.runtime or RuntimeSpec(), spec.generation or GenerationSpec()
    values = {
        names.ENV_DTYPE: spec.model.dtype,
        names.ENV_TENSOR_PARALLEL: spec.parallelism and spec.parallelism.tensor,
        names.ENV_PIPELINE_PARALLEL: spec.parallelism and spec.parallelism.pipeline,
        names.ENV_DATA_PARALLEL: spec.parallelism and spec.parallelism.data,
        **_log(runtime.log or RuntimeLog()),
        **_http(runtime.http or RuntimeHttp()),
        **_generation(generation, generation.kv_cache or KvCache()),
    }
    return [
        {"name": name, "value": str(value)} for name, value in values.items() if value is not None
    ]


def _log(log: RuntimeLog) -> dict[str, str | None]:
    return {
        names.ENV_LOG_LEVEL: log.level,
        names.ENV_LOG_FORMAT: log.format,
        names.ENV_ACCESS_LOG: _boolean(log.access),
    }


def _http(http: RuntimeHttp) -> dict[str, str | int | None]:
    proxies = http.trusted_proxies
    return {
        names.ENV_MAX_BODY_BYTES: _bytes(http.max_body_size),
        names.ENV_MAX_HELD_BYTES: _bytes(http.max_request_memory),
        names.ENV_BODY_TIMEOUT_SECONDS: http.body_timeout_seconds,
        names.ENV_CONNECTION_AGE_SECONDS: http.connection_age_seconds,
        names.ENV_CLIENT_METRICS: _boolean(http.metrics),
        names.ENV_TRUSTED_PROXIES: None if proxies is None else ",".join(proxies),
    }


def _generation(generation: GenerationSpec, cache: KvCache) -> dict[str, str | int | None]:
    return {
        names.ENV_MAX_MODEL_LEN: generation.context_length,
        names.ENV_CACHE_BYTES: _bytes(cache.size),
        names.ENV_CACHE_PERCENT: cache.free_memory_percent,
        names.ENV_HOST_CACHE_BYTES: _bytes(cache.host_size),
        names.ENV_MAX_RUNNING: generation.max_sequences,
        names.ENV_MAX_RUN_SECONDS: generation.max_run_seconds,
        names.ENV_COMPUTE_BACKEND: generation.compute_backend,
    }


def _bytes(quantity: int | str | None) -> int | None:
    return None if quantity is None else byte_count(quantity)


def _boolean(switch: Switch | None) -> str | None:
    return None if switch is None else str(switch is Switch.ENABLED).lower()
