"""Signatures are Java's, over what is sent; secrets are seen nowhere.

More of Java's answers are compared in tests/integration/test_java_signing.py.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.errors import ProtocolError
from orderly.protocol.frame import encode_frame, request
from orderly.protocol.signing import Credentials, signed

APP = Credentials("app", "secret12345")
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
names = st.text("abcXYZ_", max_size=5)
commands = st.builds(
    request,
    st.integers(0, 400),
    st.dictionaries(st.text("abcXYZ_", max_size=5), texts),
    st.binary(),
)


@pytest.mark.parametrize(
    ("code", "ext", "body", "credentials", "signature"),
    [  # made by Java's AclClientRPCHook of 5.5.0
        (
            310,
            {"a": "group", "b": "orders", "e": "3", "i": "k\u0001v\u0002", "Z": "9"},
            b"body\x00\xff",
            APP,
            "mFME5UfX0Vmxw0dWKo6+GL8qNlw=",
        ),
        (34, {}, b'{"clientID":"c"}', APP, "iVUuxVDZcnqRRnJ+qgIMlPXBZQw="),
        (
            11,
            {"topic": "订单", "consumerGroup": "g"},
            b"",
            Credentials("app", "geheim é😀", "token-1"),
            "RMl+8aQM71CKURHG4X4ka92m9ks=",
        ),
    ],
    ids=["send", "heartbeat", "token"],
)
def test_the_signature_is_javas(code, ext, body, credentials, signature):
    assert signed(request(code, ext, body), credentials).ext["Signature"] == signature


@given(commands)
def test_fields_are_added_and_nothing_else_is_changed(command):
    before = encode_frame(command)
    sent = signed(command, Credentials("app", "s", "token-1"))
    added = {"AccessKey": "app", "SecurityToken": "token-1", "Signature": sent.ext["Signature"]}
    assert sent.ext == command.ext | added
    assert encode_frame(command) == before  # what the caller holds has no keys in it
    sent.ext = command.ext
    assert sent == command


@given(commands)
def test_signing_again_replaces_the_signature(command):
    once = signed(command, APP)
    assert signed(once, APP) == once


@given(commands, st.integers(0, 400), st.integers(0, 2**31 - 1))
def test_code_and_request_id_are_not_part_of_it(command, code, request_id):
    signature = signed(command, APP).ext["Signature"]
    command.code, command.request_id = code, request_id
    assert signed(command, APP).ext["Signature"] == signature


@given(commands, st.binary(min_size=1))
def test_another_body_or_secret_is_another_signature(command, more):
    signature = signed(command, APP).ext["Signature"]
    assert signed(command, Credentials("app", "other")).ext["Signature"] != signature
    command.body += more
    assert signed(command, APP).ext["Signature"] != signature


def test_what_cannot_be_sent_is_refused_where_it_is_without_a_signature():
    with pytest.raises(ProtocolError):
        encode_frame(signed(request(310, {"i": "\ud800"}), APP))


def test_credentials_show_nothing_of_themselves():
    assert repr(Credentials("app", "secret12345", "token-1")) == "Credentials()"
