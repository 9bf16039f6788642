"""Bring running pods to the wanted limits, and hear what they obey (docs/design/design.md#live-limits)."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

import aiohttp
from pydantic import ValidationError

from penstock_api.limits import Loading, State
from penstock_api.names import CLUSTER_PORT, PATH_LIMITS, PATH_STATE
from penstock_operator.decide.actions import LimitsPush
from penstock_operator.errors import NotLeading
from penstock_operator.net.http import CONNECTIONS, CallFailed, HttpCall, call, pod_url
from penstock_operator.net.tokens import Signer
from penstock_operator.observed import Acknowledgement, PodObject

LIMIT_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class _Where:
    """One endpoint of one pod."""

    ip: str
    path: str
    tls_name: str | None


class PodControl:
    """Speaks to the control API of pods, a bounded number at a time."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        signer: Signer,
        clock: Callable[[], float],
        leading: Callable[[], bool],
    ) -> None:
        """`session` is a `http.new_session()` that trusts the pods' authority.

        `clock` gives Unix seconds; `leading` allows each call.
        """
        self._session = session
        self._signer = signer
        self._clock = clock
        self._leading = leading
        self._gate = asyncio.Semaphore(CONNECTIONS)

    async def push(self, pushes: Iterable[LimitsPush]) -> Mapping[str, Acknowledgement]:
        """PATCH each pod's limits; return its answer by pod UID. Raises `NotLeading`, never for a pod's sake.

        The generation in an answer is the one the pod obeys by then, which may still be the one before.
        """
        return await self._each({one.pod_uid: self._patch(one) for one in pushes})

    async def read(
        self, pods: Iterable[PodObject], generation: int = 0
    ) -> Mapping[str, Acknowledgement]:
        """GET each pod's state; return what it obeys by pod UID. Never raises for a pod's sake."""
        return await self._each(
            {
                pod.uid: self._ask(
                    pod.uid, generation, "GET", _Where(pod.ip, PATH_STATE, pod.tls_name)
                )
                for pod in pods
                if pod.ip is not None and not pod.host_network
            }
        )

    async def _each(
        self, asked: Mapping[str, Coroutine[None, None, Acknowledgement]]
    ) -> Mapping[str, Acknowledgement]:
        return dict(zip(asked, await asyncio.gather(*asked.values()), strict=True))

    async def _patch(self, push: LimitsPush) -> Acknowledgement:
        body = push.update.model_dump_json(by_alias=True).encode()
        where = _Where(push.ip, PATH_LIMITS, push.tls_name)
        return await self._ask(push.pod_uid, push.update.generation, "PATCH", where, body)

    async def _ask(
        self,
        uid: str,
        generation: int,
        method: str,
        where: "_Where",
        body: bytes | None = None,
    ) -> Acknowledgement:
        path = where.path
        try:
            async with self._gate:
                if not self._leading():
                    raise NotLeading("the Lease is not ours")
                token = self._signer.token(uid, generation, self._clock())
                headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
                url = pod_url(where.ip, CLUSTER_PORT, path, where.tls_name)
                what = HttpCall(method, url, LIMIT_BYTES, headers, body, tls_name=where.tls_name)
                answer = await call(self._session, what)
        except CallFailed as error:
            return Acknowledgement(None, None, f"{path} {error}")
        return acknowledgement(path, *answer)


def acknowledgement(path: str, status: int, body: bytes) -> Acknowledgement:
    """Return what a pod's answer says; numbers are range-checked by the types of `penstock_api`."""
    if status == HTTPStatus.OK:
        try:
            state = State.model_validate_json(body)
        except ValidationError as error:
            field = ".".join(map(str, error.errors()[0]["loc"])) or "body"
            return Acknowledgement(None, None, f"{path} answered a bad state: {field}")
        return Acknowledgement(state.generation, state.effective_max)
    problem = f"{path} answered {status}{_said(body)}"
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        return Acknowledgement(None, None, problem, _loading(body))
    if status == HTTPStatus.CONFLICT:
        return Acknowledgement(_held_generation(body), None, problem)
    return Acknowledgement(None, None, problem)


def _said(body: bytes) -> str:
    """Return the pod's own error text, shortened."""
    error = _member(body, "error")
    return f": {error[:200]}" if isinstance(error, str) else ""


def _loading(body: bytes) -> Loading | None:
    """Return how far a pod's load has come, where it says so."""
    try:
        return Loading.model_validate_json(json.dumps(_member(body, "loading")))
    except ValidationError:
        return None


def _held_generation(body: bytes) -> int | None:
    """Return the generation that a pod obeys, from its refusal of an older one."""
    held = _member(body, "generation")
    return held if type(held) is int and 0 <= held < 2**63 else None


def _member(body: bytes, name: str) -> object:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return answer.get(name) if isinstance(answer, dict) else None
