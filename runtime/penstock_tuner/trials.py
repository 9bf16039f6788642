"""`TrialMeasurer`: measures settings on the measured pod, under the load of the study. Does I/O."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from penstock_tuner.errors import NoRequest, PodFailed, PodRejected
from penstock_tuner.load import ClosedLoop, OpenLoop, Sender, probe
from penstock_tuner.pod import MeasuredPod, Pods
from penstock_tuner.settings import MAX_RATE_SHARE, LoadMeasurement, TunedSettings, TuningObjective

SETTLE_SECONDS = (0.5, 5.0)
"""Range of the time before a round is measured, for the queues of the settings before to end: twice the objective in between."""
LATE_SHARE = 4
"""Time after which a request of the open loop counts as failed, relative to that of the objective."""


@dataclass(frozen=True, slots=True)
class OfferedLoad:
    """The requests of every trial."""

    sender: Callable[[str], Sender]
    """Returns the sender to a client URL of a pod."""
    kinds: int
    """Different requests, which are sent in turn."""
    rows: int
    """Most rows of a request; 1 for text."""

    async def check(self, pod: MeasuredPod) -> None:
        """Send one request of each kind.

        Raises:
            NoRequest: the pod rejects one.
            PodFailed: it died.
        """
        try:
            await probe(self.sender(pod.client_url), self.kinds)
        except NoRequest:
            await pod.check()
            raise


@dataclass(frozen=True, slots=True)
class TrialMeasurer:
    """Measures settings; a pod that ends meanwhile has failed with these settings, not with the next ones."""

    pods: Pods
    load: OfferedLoad
    objective: TuningObjective
    request_seconds: float
    """Time that the objective allows for a request."""
    clients: int
    """Clients of the closed loop."""
    rate: float = 0.0
    """Requests per second of the open loop."""
    seed: int = 1

    async def closed(self, settings: TunedSettings, seconds: float) -> LoadMeasurement:
        """Measure settings under the closed loop. Raises `PodFailed`."""
        async with self._sender(settings) as send:
            loop = ClosedLoop(send, self.objective)
            return await loop.measure(self.clients, self._settle_seconds, seconds)

    async def at_rate(
        self, settings: TunedSettings, seconds: float, goodput: float
    ) -> LoadMeasurement:
        """Measure settings under the open loop, at no more than a share of the closed loop's goodput. Raises `PodFailed`."""
        async with self._sender(settings) as send:
            loop = OpenLoop(send, self.objective, LATE_SHARE * self.request_seconds, self.seed)
            rate = min(self.rate, MAX_RATE_SHARE * goodput)
            return await loop.measure(rate, self._settle_seconds, seconds)

    @property
    def _settle_seconds(self) -> float:
        least, most = SETTLE_SECONDS
        return min(max(2 * self.request_seconds, least), most)

    @asynccontextmanager
    async def _sender(self, settings: TunedSettings) -> AsyncIterator[Sender]:
        try:
            pod = await self.pods.running(settings)
            await pod.apply(settings)
            yield self.load.sender(pod.client_url)
            await pod.check()
        except PodRejected:
            raise
        except PodFailed:
            await self.pods.stop()
            raise
