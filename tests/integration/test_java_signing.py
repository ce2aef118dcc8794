"""The same requests signed by the Java client's own hook: its signature is the measure."""

import random
from base64 import b64encode
from pathlib import Path

import pytest

from orderly.protocol.codes import RequestCode
from orderly.protocol.frame import encode_frame, request
from orderly.protocol.signing import Credentials, signed
from tests.support.java import compile_java, run_java

pytestmark = pytest.mark.needs("jdk")

SOURCE = Path(__file__).with_name("JavaSigning.java")
SEED = 20261122
NAMES = [
    "topic",
    "consumerGroup",
    "queueId",
    "a",
    "b",
    "i",
    "Z",
    "_x",
    "bname",
    "Aa",
    "_UNIQUE_KEY_QUERY",
]
TEXTS = [
    "orders",
    "%RETRY%g",
    "",
    "0",
    "true",
    "订单-42",
    "😀",
    "a\u0001b\u0002",
    "x y=z&",
    "é" * 50,
]


def generated_case(pick):
    ext = {name: pick.choice(TEXTS) for name in pick.sample(NAMES, pick.randint(0, len(NAMES)))}
    body = pick.choice([b"", b"{}", pick.randbytes(pick.randint(1, 5000))])
    credentials = Credentials(
        pick.choice(["app", "ключ", "a b"]),
        pick.choice(["secret12345", "geheim é😀", "x" * 200]),
        pick.choice(["", "token-1"]),
    )
    return request(pick.choice(list(RequestCode)), ext, body), credentials


def line(command, credentials):
    texts = [credentials.access_key, credentials.secret_key, credentials.security_token]
    fields = [b64encode(text.encode()).decode() or "-" for text in texts]
    return " ".join([*fields, b64encode(encode_frame(command)[4:]).decode()])


@pytest.fixture(scope="module")
def java(tmp_path_factory):
    target = tmp_path_factory.mktemp("signing")
    compile_java(SOURCE, target)
    return lambda lines: run_java(target, "JavaSigning", "\n".join(lines)).split()


def test_every_request_is_signed_as_javas_client_signs_it(java):
    pick = random.Random(SEED)
    cases = [generated_case(pick) for _ in range(500)]
    ours = [signed(*case).ext["Signature"] for case in cases]
    assert java([line(*case) for case in cases]) == ours
