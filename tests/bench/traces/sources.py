"""The public traces: where each is published, at which commit, and git's own name of its content.

Licenses: Azure's traces and BurstGPT's are CC-BY 4.0, Mooncake's is Apache 2.0. They are fetched, never redistributed.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from tests.bench.control.plan import TRACES
from tests.bench.traces.convert import hourly, unchanged

HOME = "https://raw.githubusercontent.com"
AZURE = f"{HOME}/Azure/AzurePublicDataset/b469a113cedca53ddc3bdea71a143dc4b7d8700c/data"
MOONCAKE = f"{HOME}/kvcache-ai/Mooncake/3b5a594133958449a1feaf1c9e0fc1b553e34a28/FAST25-release"
BURSTGPT = f"{HOME}/HPMLL/BurstGPT/e92f533b6c85ea7f4164fb3d97d1aa2c3edacbc8/data"


class ChangedTraceError(ValueError):
    """A download is not what the digest says; the message contains both digests."""


@dataclass(frozen=True, slots=True)
class Source:
    """A published file, and how it becomes a trace of the bench."""

    trace: str
    """Its name in the bench's plan."""
    url: str
    blob: str
    """Digest of the content as git computes it, which the repository's own history contains."""
    convert: Callable[[bytes], bytes] = unchanged

    @property
    def file(self) -> str:
        """Return the name of the trace's file."""
        return TRACES[self.trace]

    def check(self, content: bytes) -> None:
        """Check a download.

        Raises:
            ChangedTraceError: its digest is another.
        """
        actual = git_blob(content)
        if actual != self.blob:
            raise ChangedTraceError(
                f"{self.url}: expected a content of digest {self.blob}, got {actual} ({len(content)} bytes):"
                " the file changed or the download is incomplete; try again, or put the file there by hand"
            )


def git_blob(content: bytes) -> str:
    """Return the digest that git gives a file of this content."""
    head = f"blob {len(content)}\0".encode()
    return hashlib.sha1(head + content, usedforsecurity=False).hexdigest()


SOURCES = (
    Source(
        "azure_conv",
        f"{AZURE}/AzureLLMInferenceTrace_conv.csv",
        "5b9219f2caf93bbbf95ec29894e206115658e235",
    ),
    Source(
        "azure_code",
        f"{AZURE}/AzureLLMInferenceTrace_code.csv",
        "62bd8109d0f2b1bc48206d397ecca48d8de03aab",
    ),
    Source(
        "mooncake",
        f"{MOONCAKE}/traces/conversation_trace.jsonl",
        "5a371794b81d7fc7487ec8a02a2c631bcc7fbdf8",
    ),
    Source(
        "burstgpt",
        f"{BURSTGPT}/BurstGPT_1.csv",
        "f95dd2c84454b067fdd0973858c55ecfe31bdad7",
        hourly,
    ),
)
