"""A server that speaks S3, and stores of objects in it and in a folder."""

from __future__ import annotations

import logging
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

from moto.server import ThreadedMotoServer
from obstore.store import LocalStore, ObjectStore, S3Store

SECRET = "EXAMPLEKEYdonotshow"


@contextmanager
def s3_server() -> Iterator[int]:
    """The port of the server, until the end of the block."""
    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        yield server.get_host_and_port()[1]
    finally:
        server.stop()


def new_bucket(port: int) -> str:
    """The name of an empty bucket."""
    name = f"kept-{uuid4().hex}"
    request = urllib.request.Request(f"http://127.0.0.1:{port}/{name}", method="PUT")
    urllib.request.urlopen(request).close()
    return name


def environment(port: int) -> dict[str, str]:
    """With what a URL of the server is used."""
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "someone",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
    }


def s3_store(port: int, bucket: str, *, seconds: float = 30) -> ObjectStore:
    """A store in the bucket.

    Args:
        seconds: for one request; a failing one is repeated once.
    """
    return S3Store(
        bucket,
        prefix="some/where",
        endpoint=f"http://127.0.0.1:{port}",
        access_key_id="someone",
        secret_access_key=SECRET,
        region="us-east-1",
        client_options={"allow_http": True, "timeout": timedelta(seconds=seconds)},
        retry_config={"max_retries": 1, "retry_timeout": timedelta(seconds=seconds)},
    )


def local_store(folder: Path) -> ObjectStore:
    """A store in a folder."""
    return LocalStore(folder, mkdir=True)
