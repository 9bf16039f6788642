"""Pushes of live limits to pods, and their acknowledgements (docs/design/design.md#live-limits)."""

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus

import aiohttp
from pydantic import ValidationError

from penstock_api.names import CLUSTER_PORT, PATH_LIMITS, PATH_STATE
from penstock_api.pod_contract import Loading, State
from penstock_operator.decide.actions import LimitsPush
from penstock_operator.errors import NotLeading
from penstock_operator.net.http import CallFailed, HttpCall, call, pod_url
from penstock_operator.net.pod_calls import PodCalls
from penstock_operator.net.tokens import Signer
from penstock_operator.observed import Acknowledgement, PodObject

LIMIT_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """One endpoint of one pod."""

    ip: str
    path: str
    tls_name: str | None


class PodControl:
    """Client of the control API of pods, with a bounded number of concurrent calls."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        signer: Signer,
        clock: Callable[[], float],
        leading: Callable[[], bool],
        calls: PodCalls | None = None,
    ) -> None:
        """`session` is a `http.new_session()` that trusts the pods' CA.

        `clock` returns Unix seconds; `leading` returns whether calls are allowed; `calls` are the pool's own.
        """
        self._session = session
        self._signer = signer
        self._clock = clock
        self._leading = leading
        self._calls = calls or PodCalls()

    async def push(self, pushes: Iterable[LimitsPush]) -> Mapping[str, Acknowledgement]:
        """PATCH each pod's limits; return the responses by pod UID. Raises `NotLeading`; a pod's failure is in its response.

        A response contains the generation in force, which may still be the previous one.
        """
        return await self._each(
            {push.pod_uid: partial(self._patch, push) for push in pushes}, PATH_LIMITS
        )

    async def read(
        self, pods: Iterable[PodObject], generation: int = 0
    ) -> Mapping[str, Acknowledgement]:
        """GET each pod's state; return the responses by pod UID. Raises `NotLeading`; a pod's failure is in its response."""
        return await self._each(
            {
                pod.uid: partial(
                    self._call,
                    pod.uid,
                    generation,
                    "GET",
                    _Endpoint(pod.ip, PATH_STATE, pod.tls_name),
                )
                for pod in pods
                if pod.ip is not None and not pod.host_network
            },
            PATH_STATE,
        )

    async def _each(
        self, calls: Mapping[str, Callable[[], Awaitable[Acknowledgement]]], path: str
    ) -> Mapping[str, Acknowledgement]:
        answers = await self._calls.run(calls)
        return {
            uid: Acknowledgement(None, None, f"{path} {answer}")
            if isinstance(answer, CallFailed)
            else answer
            for uid, answer in answers.items()
        }

    async def _patch(self, push: LimitsPush) -> Acknowledgement:
        body = push.update.model_dump_json(by_alias=True).encode()
        endpoint = _Endpoint(push.ip, PATH_LIMITS, push.tls_name)
        return await self._call(push.pod_uid, push.update.generation, "PATCH", endpoint, body)

    async def _call(
        self,
        uid: str,
        generation: int,
        method: str,
        endpoint: "_Endpoint",
        body: bytes | None = None,
    ) -> Acknowledgement:
        if not self._leading():
            raise NotLeading("this process does not hold the Lease")
        token = self._signer.token(uid, generation, self._clock())
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        url = pod_url(endpoint.ip, CLUSTER_PORT, endpoint.path, endpoint.tls_name)
        request = HttpCall(method, url, LIMIT_BYTES, headers, body, tls_name=endpoint.tls_name)
        return acknowledgement(endpoint.path, *await call(self._session, request))


def acknowledgement(path: str, status: int, body: bytes) -> Acknowledgement:
    """Return the acknowledgement in a pod's response; the types of `penstock_api` check the range of numbers."""
    if status == HTTPStatus.OK:
        try:
            state = State.model_validate_json(body)
        except ValidationError as error:
            field = ".".join(map(str, error.errors()[0]["loc"])) or "body"
            return Acknowledgement(None, None, f"{path} returned an invalid state: {field}")
        return Acknowledgement(
            state.generation, state.effective_max, model_backend=state.model_backend
        )
    problem = f"{path} responded {status}{_error_text(body)}"
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        return Acknowledgement(None, None, problem, _loading(body))
    if status == HTTPStatus.CONFLICT:
        return Acknowledgement(_current_generation(body), None, problem)
    return Acknowledgement(None, None, problem)


def _error_text(body: bytes) -> str:
    """Return the error text in a response, shortened."""
    error = _member(body, "error")
    return f": {error[:200]}" if isinstance(error, str) else ""


def _loading(body: bytes) -> Loading | None:
    """Return the progress of a load in a response; None if there is none."""
    try:
        return Loading.model_validate_json(json.dumps(_member(body, "loading")))
    except ValidationError:
        return None


def _current_generation(body: bytes) -> int | None:
    """Return the generation in force, from the rejection of an older one."""
    generation = _member(body, "generation")
    return generation if type(generation) is int and 0 <= generation < 2**63 else None


def _member(body: bytes, name: str) -> object:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return answer.get(name) if isinstance(answer, dict) else None
