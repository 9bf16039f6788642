"""`EngineClient`: the HTTP side of one kind of engine, between the pod and the engine's link."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from prometheus_client.registry import Collector

from penstock_api.pod_contract import Envelope, State
from penstock_runtime.engine.link.base import EngineLink
from penstock_runtime.engine.messages import EngineDied
from penstock_runtime.engine.model import ModelInfo
from penstock_runtime.serving.admission.base import Admission
from penstock_runtime.serving.limits import ENVELOPE
from penstock_runtime.serving.tokenizer_pool import TokenizerPool


class EngineClient(ABC):
    """Loads a model, and records the reports of its engine. Subclasses add what only their kind of model has."""

    admission: Admission
    link: EngineLink[Any, Any, Any]
    texts: TokenizerPool | None = None
    """Tokenizers of a batch model that reads texts."""

    @abstractmethod
    async def load(self, deliver: Callable[[Any | EngineDied], None]) -> ModelInfo:
        """Load the model; the engine's messages go to `deliver`, its first report before this returns.

        Raises:
            ModelLoadFailed: with a one-line reason.
        """

    @abstractmethod
    def record(self, report: Any) -> None:
        """Record a report of the engine."""

    @abstractmethod
    def context_tokens(self) -> int | None:
        """Return the maximum tokens of one text; None if the model reads no texts, or is not loaded."""

    def start_helpers(self) -> None:  # noqa: B027 - most models need none
        """Start helper processes in the background, once the pod is ready."""

    async def close(self) -> None:
        """Close the engine, which completes a running batch."""
        await self.link.close()

    def extend_state(self, state: State) -> State:
        """Return the pod's state with the fields that only this kind of engine has."""
        return state

    def envelope(self) -> Envelope:
        """Return the range of each limit that the pod accepts."""
        return ENVELOPE

    def cache_usage(self) -> float:
        """Return the share of the KV cache in use; 0 without a cache."""
        return 0.0

    def collectors(self) -> Sequence[Collector]:
        """Return the collectors of metrics that only this kind of engine has."""
        return ()
