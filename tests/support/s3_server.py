"""An S3 server on loopback (moto), with one bucket."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

KEY, SECRET = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI"
#: The environment of a program that uses it.
CREDENTIALS = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}


class S3(NamedTuple):
    """``endpoint``: the URL of the server.  ``client``: of boto3."""

    endpoint: str
    client: Any


@contextlib.contextmanager
def s3_server(objects: Mapping[str, bytes], *, public: str = "") -> Iterator[S3]:
    """Serve ``s3://bucket`` with these objects; ``public``: one that everybody may read."""
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    client = boto3.client(
        "s3", endpoint_url=endpoint, aws_access_key_id=KEY, aws_secret_access_key=SECRET, region_name="us-east-1"
    )
    try:
        client.create_bucket(Bucket="bucket")
        for key, raw in objects.items():
            more = {"ACL": "public-read"} if key == public else {}
            client.put_object(Bucket="bucket", Key=key, Body=raw, **more)
        yield S3(endpoint, client)
    finally:
        client.close()
        server.stop()
