"""What is particular to one fast route: how its bodies are read, and how ends and refusals are worded.

A way hands bodies and ends to the room whose protocol it is; aiohttp's lane calls the same functions there.
"""

from urllib.parse import quote

from penstock_api.limits import MAX_BATCH_SIZE
from penstock_api.types.model import Task
from penstock_runtime.errors import NotServing, RequestRejected
from penstock_runtime.http.fast_path.endpoint import DeferredCall, FastEndpoint
from penstock_runtime.http.fast_path.request_head import RequestHead
from penstock_runtime.protocols.common.replies import Reply, of_refusal
from penstock_runtime.protocols.open_inference.completion import reply_to, to_request
from penstock_runtime.protocols.open_inference.fast_reader import QuickReader
from penstock_runtime.protocols.open_inference.infer_request import InferCall, ResponseOptions
from penstock_runtime.protocols.open_inference.infer_response import InferBody, render
from penstock_runtime.protocols.open_inference.metadata import MODEL_VERSION
from penstock_runtime.protocols.open_inference.text_request import may_be_text, read_call
from penstock_runtime.request import Completed, End, Request
from penstock_runtime.serving.pod import Pod
from penstock_runtime.serving.ticket import Ticket


class InferEndpoint:
    """Open Inference's `infer`."""

    def __init__(self, pod: Pod) -> None:
        self._pod = pod
        self._reader: QuickReader | None = None

    def read(self, body: bytes, head: RequestHead) -> InferCall | DeferredCall:
        """As `FastEndpoint.read`."""
        texts = self._pod.texts
        if texts is not None and may_be_text(body):
            call = read_call(body, head.header_length, self._pod.model, texts)
            return call if isinstance(call, InferCall) else DeferredCall(call.tokenised)
        reader = self._reader
        if reader is None:
            reader = self._reader = self._new_reader()
        return reader.read(body, head.header_length)

    def _new_reader(self) -> QuickReader:
        if self._pod.model is None:
            raise NotServing("Loading", "the model is being loaded: try again soon")
        return QuickReader(self._pod.model, MAX_BATCH_SIZE)

    def to_request(self, ticket: Ticket, call: InferCall, head: RequestHead) -> Request:
        """As `FastEndpoint.to_request`."""
        patience = head.timeout_seconds
        if patience is not None:
            patience = self._pod.admission.seconds_to_start(patience)
        return to_request(ticket, call, patience)

    def served(self, wanted: ResponseOptions, end: Completed) -> InferBody:
        """As `FastEndpoint.served`."""
        assert self._pod.model is not None  # noqa: S101 - no engine, no end
        return render(wanted.id, end.outputs, wanted.outputs, self._pod.model)

    def reply_to(self, wanted: ResponseOptions, end: End, request_id: str) -> Reply:
        """As `FastEndpoint.reply_to`."""
        assert self._pod.model is not None  # noqa: S101 - as above
        return reply_to(end, wanted, self._pod.model, request_id)

    def of_refusal(self, refusal: RequestRejected) -> Reply:
        """As `FastEndpoint.of_refusal`."""
        return of_refusal(refusal)


def endpoints_of(pod: Pod) -> dict[str, FastEndpoint]:
    """Return the fast routes of `pod` by path; a model whose name is spelled otherwise in a URL has no `infer`."""
    found: dict[str, FastEndpoint] = {}
    model = pod.config.model_name
    if quote(model, safe="") == model:
        infer = InferEndpoint(pod)
        path = f"/v2/models/{model}"
        found = {f"{path}/infer": infer, f"{path}/versions/{MODEL_VERSION}/infer": infer}
    if pod.config.model.task is Task.EMBEDDING:
        from penstock_runtime.http.fast_path.embedding_endpoint import EmbeddingEndpoint  # noqa: PLC0415
        from penstock_runtime.protocols.openai.embeddings import PATH  # noqa: PLC0415 - as `doors`

        found[PATH] = EmbeddingEndpoint(pod)
    return found
