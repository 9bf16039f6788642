"""The endpoints of a pod's fast path, and Open Inference's `infer` among them.

An endpoint hands bodies and ends to the package of its protocol; aiohttp's path calls the same functions there.
"""

from urllib.parse import quote

from typing_extensions import override

from penstock_api.pod_contract import MAX_BATCH_SIZE
from penstock_api.types.model import Task
from penstock_runtime.errors import NotServing, RequestRejected
from penstock_runtime.http.fast_path.endpoint import DeferredCall, FastEndpoint
from penstock_runtime.http.fast_path.request_head import RequestHead
from penstock_runtime.protocols.common.replies import Reply, of_rejection
from penstock_runtime.protocols.open_inference.completion import reply_to, to_request
from penstock_runtime.protocols.open_inference.fast_reader import QuickReader
from penstock_runtime.protocols.open_inference.infer_request import InferCall, ResponseOptions
from penstock_runtime.protocols.open_inference.infer_response import InferBody, render
from penstock_runtime.protocols.open_inference.metadata import MODEL_VERSION
from penstock_runtime.protocols.open_inference.text_request import may_be_text, read_call
from penstock_runtime.request import Completed, End, Request
from penstock_runtime.serving.admission.ticket import Ticket
from penstock_runtime.serving.batch.client import BatchPod


class InferEndpoint(FastEndpoint):
    """Open Inference's `infer`."""

    def __init__(self, pod: BatchPod) -> None:
        self._pod = pod
        self._reader: QuickReader | None = None

    @override
    def read(self, body: bytes, head: RequestHead) -> InferCall | DeferredCall:
        texts = self._pod.texts
        if texts is not None and may_be_text(body):
            call = read_call(body, head.header_length, self._pod.model, texts)
            return call if isinstance(call, InferCall) else DeferredCall(call.tokenized)
        reader = self._reader
        if reader is None:
            reader = self._reader = self._new_reader()
        return reader.read(body, head.header_length)

    def _new_reader(self) -> QuickReader:
        if self._pod.model is None:
            raise NotServing("Loading", "the model is loading: retry shortly")
        return QuickReader(self._pod.model, MAX_BATCH_SIZE)

    @override
    def to_request(self, ticket: Ticket, call: InferCall, head: RequestHead) -> Request:
        seconds = head.timeout_seconds
        if seconds is not None:
            seconds = self._pod.admission.wait.seconds_to_start(seconds)
        return to_request(ticket, call, seconds)

    @override
    def served(self, options: ResponseOptions, end: Completed) -> InferBody:
        assert self._pod.model is not None  # noqa: S101 - an end comes from an engine with a model
        return render(options.id, end.outputs, options.outputs, self._pod.model)

    @override
    def reply_to(self, options: ResponseOptions, end: End, request_id: str) -> Reply:
        assert self._pod.model is not None  # noqa: S101 - as above
        return reply_to(end, options, self._pod.model, request_id)

    @override
    def of_rejection(self, rejection: RequestRejected) -> Reply:
        return of_rejection(rejection)


def endpoints_of(pod: BatchPod) -> dict[str, FastEndpoint]:
    """Return the endpoints of `pod` by path. A model whose name needs quoting in a URL has no `infer` here."""
    endpoints: dict[str, FastEndpoint] = {}
    model = pod.config.model_name
    if quote(model, safe="") == model:
        infer = InferEndpoint(pod)
        path = f"/v2/models/{model}"
        endpoints = {f"{path}/infer": infer, f"{path}/versions/{MODEL_VERSION}/infer": infer}
    if pod.config.model.task is Task.EMBEDDING:
        from penstock_runtime.http.fast_path.embedding_endpoint import EmbeddingEndpoint  # noqa: PLC0415
        from penstock_runtime.protocols.openai.embeddings.routes import PATH  # noqa: PLC0415 - as `routing`

        endpoints[PATH] = EmbeddingEndpoint(pod)
    return endpoints
