"""No Secret data reaches the debug log, an answer, a metric or the termination message.

Every secret contains a mark. The test triggers each valid and invalid use of a secret and then searches all output
of the process for the marks.
"""

import base64
import json
import ssl
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from penstock_api.certificates import CERTIFICATE_FILE, KEY_FILE
from penstock_api.names import ENV_TLS_FOLDER
from tests.integration.runtime.conftest import QUICK
from tests.support.runtime.process import START_SECONDS
from tests.unit.operator.net.certificates import Authority

KEY = "mark-of-a-good-api-key"
WRONG_KEY = "mark-of-a-wrong-api-key"
INFER = "/v2/models/demo/infer"


def call(url: str, headers: dict[str, str], body: bytes | None = None) -> str:
    """Return a call's status, headers and body as one text."""
    request = urllib.request.Request(url, body, headers)  # noqa: S310 - loopback
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with urllib.request.urlopen(request, timeout=10, context=context) as reply:  # noqa: S310
            return f"{reply.status} {reply.headers} {reply.read().decode()}"
    except urllib.error.HTTPError as error:
        with error:
            return f"{error.code} {error.headers} {error.read().decode()}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Secrets of a pod: a certificate with its key, and API keys."""
    Authority.make().issue(tmp_path / "tls", "chat.team-a.svc")
    key_file = {"keys": [{"key": KEY, "tenant": "a"}]}
    (tmp_path / "keys.json").write_text(json.dumps(key_file))
    return tmp_path


def wait_for(pod: Any, word: str) -> None:
    """Wait until the pod's log contains a word."""
    ends = time.monotonic() + START_SECONDS
    while word not in pod.log.read_text():
        assert time.monotonic() < ends, pod.log.read_text()
        time.sleep(0.1)


def test_a_pod_discloses_no_secret(launch: Any, folder: Path) -> None:
    pod = launch(
        QUICK,
        PENSTOCK_LOG_LEVEL="DEBUG",
        PENSTOCK_ACCESS_LOG="true",
        PENSTOCK_API_KEYS_FILE=str(folder / "keys.json"),
        **{ENV_TLS_FOLDER: str(folder / "tls")},
    )
    pod.wait_for_log("the model is warm")
    ports = pod.wait_for_log("listening")
    clients = f"https://127.0.0.1:{ports['client_port']}"
    cluster = f"https://127.0.0.1:{ports['cluster_port']}"
    private = (folder / "tls" / KEY_FILE).read_text()

    credentials = (
        {"Authorization": f"Bearer {KEY}"},
        {"X-Api-Key": KEY},
        {"Authorization": f"Bearer {WRONG_KEY}"},
        {"Authorization": f"Basic {WRONG_KEY}"},
    )
    answers = [call(clients + INFER, headers, b"{not json") for headers in credentials]
    tokens = [pod.token(generation=1)["Authorization"], pod.token(aud="other")["Authorization"]]
    for token in (*tokens, tokens[0], tokens[0] + "x", "Bearer mark-of-a-token.that.is-none"):
        answers.append(call(f"{cluster}/control/v1/state", {"Authorization": token}))
        answers.append(call(clients + INFER, {"Authorization": token}, b"{}"))
    assert [answer[:3] for answer in answers[:4]] == ["400", "400", "401", "401"], (
        pod.log.read_text()[-3000:]
    )

    broken = '{"keys": [{"key": "mark-of-a-broken-file", "tenant": 5, "mark-of-a-field": 1}]}'
    (folder / "keys.json").write_text(broken)
    wait_for(pod, "the API keys in")
    (folder / "tls" / KEY_FILE).write_text("mark-of-a-broken-key\n" + private[:200])
    wait_for(pod, "the previous certificate stays in use")
    answers += [call(f"{cluster}/metrics", {}), call(f"{clients}/metrics", {})]
    pod.kill()

    output = pod.log.read_text() + (pod.folder / "termination-log").read_text() + "".join(answers)
    assert "control call rejected" in output, "debug logging was on"
    for word in marks(private, tokens):
        assert word not in output, word


def test_an_invalid_certificate_ends_the_pod_without_disclosing_its_key(
    launch: Any, folder: Path
) -> None:
    (folder / "tls" / CERTIFICATE_FILE).write_text("mark-of-no-certificate")
    private = (folder / "tls" / KEY_FILE).read_text()
    pod = launch(QUICK, PENSTOCK_LOG_LEVEL="DEBUG", **{ENV_TLS_FOLDER: str(folder / "tls")})
    assert pod.stopped() == 1
    message = (pod.folder / "termination-log").read_text()
    assert message.startswith("CertificateUnusable: ")
    for word in marks(private, []):
        assert word not in message + pod.log.read_text(), word


def test_invalid_api_keys_end_a_pod_that_starts_without_disclosing_them(
    launch: Any, folder: Path
) -> None:
    (folder / "keys.json").write_text('{"keys": [{"key": "mark-of-a-key", "tenant": 5}]}')
    pod = launch(QUICK, PENSTOCK_API_KEYS_FILE=str(folder / "keys.json"))
    assert pod.stopped() == 1
    message = (pod.folder / "termination-log").read_text()
    assert message.startswith("ApiKeysUnusable: the API keys in ")
    assert "mark-of" not in message + pod.log.read_text()


def marks(private: str, tokens: list[str]) -> list[str]:
    """Return the words that no output may contain: the marks, the lines of the key, the tokens' signatures."""
    lines = [line for line in private.splitlines() if line and not line.startswith("---")]
    signatures = [token.rpartition(".")[2] for token in tokens]
    encoded = base64.b64encode(KEY.encode()).decode()
    return ["mark-of", "PRIVATE KEY", encoded, *lines, *signatures]
