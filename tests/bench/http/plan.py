"""Plan of the HTTP bench: servers, bodies and connections. All servers have the same batch limit of 64 rows."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
PEERS: Final = HERE / "peers"
ROOT: Final = HERE.parents[2]
BUILD: Final = ROOT / "build" / "bench"
MAX_BATCH: Final = 64
CONNECTIONS: Final = (1, 16, 64, 256)
SERVER_CORE: Final = 0
CLIENT_CORE: Final = 1
INFER: Final = "/v2/models/mlp/infer"


@dataclass(frozen=True)
class Contender:
    """A server with one setting; `{port}` in `argv` and `environment` is replaced with its port."""

    name: str
    argv: tuple[str, ...]
    package: str = ""
    """Requirements from the Python index for a separate environment; empty for the project's own."""
    path: str = INFER
    body: str = "json"
    """`json` and `binary` are KServe v2's; `bento` is BentoML's own."""
    environment: dict[str, str] = field(default_factory=dict)
    headers: str = ""
    """Additional header lines of every request, each with its line end."""
    quick: bool = False
    """Whether it takes part with `--quick`."""
    decisive: bool = False
    """Whether it takes part with `--decisive`: a target names it, or it is the best of its kind."""


OURS: Final = {
    "PENSTOCK_MODEL": (
        '{"name":"mlp","source":{"type":"Module","module":{"factory":"tiny_mlp:create"}}}'
    ),
    "PENSTOCK_HOST": "127.0.0.1",
    "PENSTOCK_CLIENT_PORT": "{port}",
    "PENSTOCK_CLUSTER_PORT": "0",
    "PENSTOCK_LOG_LEVEL": "WARNING",
    "PENSTOCK_CONNECTION_AGE_SECONDS": "20",
    "PYTHONPATH": str(PEERS),
}
RUNTIME: Final = ("{python}", "-m", "penstock_runtime")
RAY_TUNED: Final = {"RAY_SERVE_THROUGHPUT_OPTIMIZED": "1", "RAY_SERVE_ENABLE_DIRECT_INGRESS": "0"}
"""Direct ingress needs HAProxy, which Ray does not include: without it nothing listens on the port."""
BENTOML: Final = (
    "{python}", "-m", "bentoml", "serve", "serve_bentoml:Tiny", "--host", "127.0.0.1", "--port", "{port}",
)  # fmt: skip


def peer(
    name: str,
    package: str,
    script: str,
    wait: int,
    settings: dict[str, str] | None = None,
    **more: object,
) -> Contender:
    """Return a peer with a batch window of `wait` milliseconds; `settings` are its environment variables."""
    environment = {"BENCH_WAIT_MS": str(wait), "BENCH_PORT": "{port}", **(settings or {})}
    return Contender(
        name,
        ("{python}", script),
        package,
        environment=environment,
        **more,  # type: ignore[arg-type]
    )


CONTENDERS: Final = (
    Contender("penstock", RUNTIME, environment=OURS, quick=True, decisive=True),
    Contender("penstock, binary", RUNTIME, body="binary", environment=OURS, quick=True, decisive=True),
    Contender("raw asyncio sketch", ("{python}", "sketch_asyncio.py", "{port}"), quick=True, decisive=True),
    Contender("raw asyncio sketch, uvloop", ("{python}", "sketch_asyncio.py", "{port}", "uvloop"), quick=True, decisive=True),
    Contender("bare aiohttp sketch", ("{python}", "sketch_aiohttp.py", "{port}", "batched"), quick=True),
    Contender("naive aiohttp", ("{python}", "sketch_aiohttp.py", "{port}", "naive"), quick=True, decisive=True),
    peer("Mosec, no wait", "mosec==0.9.8", "serve_mosec.py", 0, path="/inference", quick=True, decisive=True),
    peer("Mosec, 1 ms", "mosec==0.9.8", "serve_mosec.py", 1, path="/inference", quick=True, decisive=True),
    peer("Mosec, 5 ms", "mosec==0.9.8", "serve_mosec.py", 5, path="/inference"),
    peer("LitServe", "litserve==0.2.19", "serve_litserve.py", 1, path="/predict", quick=True, decisive=True),
    Contender("BentoML", BENTOML, "bentoml==1.4.39", path="/predict", body="bento"),
    peer("Ray Serve", "ray[serve]==2.60.0", "serve_ray.py", 1, path="/predict"),
    peer("Ray Serve, tuned", "ray[serve]==2.60.0", "serve_ray.py", 1, path="/predict", settings=RAY_TUNED),
    peer("MLServer", "mlserver==1.7.1", "serve_mlserver.py", 1),
    peer("Triton (PyTriton), no wait", "nvidia-pytriton==0.7.0", "serve_pytriton.py", 0, decisive=True),
    peer("Triton (PyTriton), no wait, binary", "nvidia-pytriton==0.7.0", "serve_pytriton.py", 0, body="binary", decisive=True),
)  # fmt: skip
