"""Bring running pods to the wanted limits, and hear what they obey (DESIGN, section 3)."""

from collections.abc import Callable, Iterable, Mapping

import aiohttp

from penstock_operator.decide.plan import Push
from penstock_operator.observed import Acknowledgement, PodObject
from penstock_operator.tokens import Signer


class PodControl:
    """Speaks to the control API of pods, a bounded number at a time."""

    def __init__(
        self, session: aiohttp.ClientSession, signer: Signer, clock: Callable[[], float]
    ) -> None:
        """`session` is a `calls.new_session()`; `clock` gives Unix seconds."""
        self._session = session
        self._signer = signer
        self._clock = clock

    async def push(self, pushes: Iterable[Push]) -> Mapping[str, Acknowledgement]:
        """PATCH each pod's limits; return its answer by pod UID. Never raises for a pod's sake."""
        raise NotImplementedError

    async def read(self, pods: Iterable[PodObject]) -> Mapping[str, Acknowledgement]:
        """GET each pod's state; return what it obeys by pod UID. Never raises for a pod's sake."""
        raise NotImplementedError
