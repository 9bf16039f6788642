"""A real S3 server (moto's) as a process, and a bucket on it."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import botocore.session

KEYS = {"AWS_ACCESS_KEY_ID": "key-id", "AWS_SECRET_ACCESS_KEY": "key-secret"}


@dataclass
class Bucket:
    """One bucket called `models`."""

    url: str
    process: "subprocess.Popen[bytes]"

    def put(self, key: str, body: bytes) -> None:
        self._client().put_object(Bucket="models", Key=key, Body=body)

    def put_in_parts(self, key: str, body: bytes) -> None:
        """Put an object as most clients do with large files, after which the ETag does not hash the content."""
        client, place = self._client(), {"Bucket": "models", "Key": key}
        upload = {**place, "UploadId": client.create_multipart_upload(**place)["UploadId"]}
        part = client.upload_part(**upload, PartNumber=1, Body=body)
        parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
        client.complete_multipart_upload(**upload, MultipartUpload=parts)

    def make(self) -> None:
        self._client().create_bucket(Bucket="models")

    def _client(self) -> Any:
        return botocore.session.get_session().create_client(
            "s3",
            region_name="us-east-1",
            endpoint_url=self.url,
            aws_access_key_id=KEYS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=KEYS["AWS_SECRET_ACCESS_KEY"],
        )


@contextmanager
def serving() -> Iterator[Bucket]:
    """Run a server with an empty bucket."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _await(port)
        bucket = Bucket(f"http://127.0.0.1:{port}", process)
        bucket.make()
        yield bucket
    finally:
        process.kill()
        process.wait()


def _await(port: int) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        else:
            return
