"""`with_settings`: a copy of a `RuntimeConfig` with some fields changed, each named without its group."""

from dataclasses import fields, is_dataclass, replace
from typing import Any

from penstock_runtime.config import RuntimeConfig


def with_settings(config: RuntimeConfig, **settings: Any) -> RuntimeConfig:
    """Return `config` with `settings`: fields of its groups, or whole attributes such as `model`.

    Raises:
        TypeError: no group has such a field.
    """
    top = {field.name for field in fields(config)}
    for name, value in settings.items():
        group = name if name in top else _group(config, name)
        part = value if name in top else replace(getattr(config, group), **{name: value})
        config = replace(config, **{group: part})
    return config


def _group(config: RuntimeConfig, name: str) -> str:
    for group in fields(config):
        part = getattr(config, group.name)
        if is_dataclass(part) and name in {field.name for field in fields(part)}:
            return group.name
    raise TypeError(f"no setting {name!r}")
