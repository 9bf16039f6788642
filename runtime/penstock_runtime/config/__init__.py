"""Settings of a pod: their groups, and their variables."""

from penstock_runtime.config.environment import read_config
from penstock_runtime.config.settings import (
    AuthConfig,
    DrainConfig,
    EngineConfig,
    FilesConfig,
    GenerationConfig,
    HttpConfig,
    LogConfig,
    Network,
    PodConfig,
    QueueConfig,
    RuntimeConfig,
)

__all__ = [
    "AuthConfig",
    "DrainConfig",
    "EngineConfig",
    "FilesConfig",
    "GenerationConfig",
    "HttpConfig",
    "LogConfig",
    "Network",
    "PodConfig",
    "QueueConfig",
    "RuntimeConfig",
    "read_config",
]
