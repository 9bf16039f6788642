"""`recorded`: CUDA graphs on a device; in a rehearsal a recorder that traces a step's operations and runs those again."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from penstock_runtime.models.decoders import warm_up
from penstock_runtime.models.decoders.backends import registry
from tests.gpu.plan import Setting
from tests.unit.runtime.models.decoders.tracing_recorder import TracingRecorder


@contextmanager
def recorded(setting: Setting) -> Iterator[None]:
    """Let decode steps that are opened within be recorded on any device."""
    if setting.on_cuda:
        yield
        return
    traced = patch.object(registry, "recorder_of", lambda _device: TracingRecorder())
    with traced, patch.object(warm_up, "MAX_SECONDS", 0.0):  # tracing a step takes a second
        yield
