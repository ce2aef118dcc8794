"""Encrypted connections: who is trusted, what a failure says, and reads beside writes under load.

That all promises of a connection hold with TLS is test_connection's.
"""

from __future__ import annotations

import os
import socket
import ssl
import stat
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from orderly.client import tls as tls_module
from orderly.client.connection import Connection
from orderly.client.security import security_of
from orderly.client.tls import TlsStream
from orderly.config import ClientConfig
from orderly.errors import ConfigError, ConnectFailed, ConnectionLost
from orderly.protocol.codes import RequestCode
from orderly.protocol.frame import encode_frame, reply_to, request
from tests.support.certificates import Authority, server_context, trusting
from tests.unit.client.connections.conftest import ScriptedServer, TlsServer

pytestmark = pytest.mark.needs("openssl")

SOON = 30.0
ASK = RequestCode.GET_MAX_OFFSET


@pytest.fixture
def encrypted():
    return True


@pytest.fixture
def serve():
    """Start a server with a context; its address is told."""
    servers = []

    def serve(context=None):
        servers.append(ScriptedServer() if context is None else TlsServer(context))
        return servers[-1]

    yield serve
    for server in servers:
        server.close()


@pytest.fixture
def dial(timeouts, awake):
    """Open a connection by settings; closed after the test."""
    opened = []

    def dial(address, config, connect_timeout=SOON):
        opened.append(
            Connection(
                address,
                timeouts=timeouts,
                awake=awake,
                connect_timeout=connect_timeout,
                max_frame=2**24,
                on_request=lambda *_: None,
                on_close=lambda _: None,
                security=security_of(config),
            )
        )
        return opened[-1]

    yield dial
    for connection in opened:
        connection.close()


# --- who is trusted ----------------------------------------------------------------------------


def test_a_server_of_another_authority_is_refused_and_the_setting_named(
    serve, dial, authority, tmp_path
):
    server = serve(server_context(Authority(tmp_path, "stranger").issue("server")))
    with pytest.raises(ConnectFailed, match=rf"{server.address}.*set tls_ca_file.*unable to get"):
        dial(server.address, trusting(authority))


def test_an_expired_certificate_is_refused(serve, dial, authority):
    server = serve(server_context(authority.issue("old", days=-1)))
    with pytest.raises(ConnectFailed, match="has expired; it needs a new one"):
        dial(server.address, trusting(authority))


@pytest.mark.parametrize(
    ("host", "trusted"),
    [("localhost", True), ("127.0.0.1", False)],
)
def test_a_certificate_is_for_the_host_that_was_connected_to(serve, dial, authority, host, trusted):
    server = serve(server_context(authority.issue("named", hosts=("DNS:localhost",))))
    address = server.address.replace("127.0.0.1", host)
    if trusted:
        assert dial(address, trusting(authority)).alive
        return
    with pytest.raises(ConnectFailed, match=r"for another host.*tls_verify='chain'"):
        dial(address, trusting(authority))


def test_chain_checks_the_authority_and_not_the_name(serve, dial, authority, tmp_path):
    chain = trusting(authority, tls_verify="chain")
    known = serve(server_context(authority.issue("elsewhere", hosts=("DNS:elsewhere",))))
    assert dial(known.address, chain).alive
    unknown = serve(server_context(Authority(tmp_path, "stranger").issue("server")))
    with pytest.raises(ConnectFailed, match="set tls_ca_file"):
        dial(unknown.address, chain)


def test_without_verification_anybody_is_trusted_and_that_is_said_once(
    serve, dial, authority, tmp_path, caplog
):
    tls_module._warn_of_no_verification.cache_clear()
    server = serve(server_context(Authority(tmp_path, "stranger").issue("server")))
    for _ in range(2):
        assert dial(server.address, trusting(authority, tls_verify="none")).alive
    told = [record for record in caplog.records if "tls.not_verified" in record.getMessage()]
    assert len(told) == 1
    assert "insecure" in told[0].getMessage()


def test_without_an_authority_the_systems_are_trusted(serve, dial, authority, monkeypatch):
    server = serve(server_context(authority.issue("server")))
    with pytest.raises(ConnectFailed, match="set tls_ca_file"):
        dial(server.address, trusting(authority, tls_ca_file=""))
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca))  # the system's, for OpenSSL
    assert dial(server.address, trusting(authority, tls_ca_file="")).alive


def test_a_server_may_ask_who_the_client_is(serve, dial, authority, tmp_path, in_thread):
    mine, key = authority.issue("client")
    server = serve(server_context(authority.issue("server"), clients=authority.ca))
    config = trusting(authority, tls_cert_file=mine, tls_key_file=key)
    answer = in_thread(dial(server.address, config).call, request(ASK), SOON)
    peer = server.accept()
    assert peer.sock.getpeercert()["subject"] == ((("commonName", "client"),),)
    peer.answer(peer.read())
    assert answer.result(SOON).code == 0


@pytest.mark.parametrize("offered", ["nothing", "a stranger's", "an expired one"])
def test_a_client_that_is_refused_is_told_which_settings(serve, dial, authority, tmp_path, offered):
    server = serve(server_context(authority.issue("server"), clients=authority.ca))
    made_by = {
        "nothing": lambda: ("", ""),
        "a stranger's": lambda: Authority(tmp_path, "stranger").issue("client"),
        "an expired one": lambda: authority.issue("client", days=-1),
    }
    mine, key = made_by[offered]()
    config = trusting(authority, tls_cert_file=mine, tls_key_file=key)
    with pytest.raises((ConnectFailed, ConnectionLost)) as raised:  # TLS 1.3 tells it afterwards
        dial(server.address, config).call(request(ASK), SOON)
    assert "set tls_cert_file and tls_key_file" in str(raised.value)


@pytest.mark.parametrize("name", ["tls_ca_file", "tls_cert_file"])
@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_file_that_is_not_what_it_should_be_is_named(authority, tmp_path, name, content):
    path = tmp_path / "file.pem"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError, match=f"{name}='{path}'.*PEM"):
        security_of(trusting(authority, **{name: str(path)}))


@pytest.mark.parametrize(
    ("owner", "mode", "taken"),
    [
        (1000, 0o600, True), (1000, 0o400, True), (1000, 0o640, False), (1000, 0o604, False),
        (0, 0o640, True), (0, 0o440, True), (0, 0o660, False), (0, 0o644, False),
    ],
)  # fmt: skip
def test_a_key_is_its_owners_and_only_roots_may_be_its_groups_to_read(owner, mode, taken):
    status = os.stat_result((stat.S_IFREG | mode, 0, 0, 1, owner, owner, 0, 0, 0, 0))
    assert tls_module._is_open_to_others(status) is not taken


@pytest.mark.parametrize("mode", [0o644, 0o620, 0o666])
def test_a_key_that_others_can_read_or_write_is_refused(authority, mode):
    mine, key = authority.issue(f"open-{mode}")
    config = trusting(authority, tls_cert_file=mine, tls_key_file=key)
    security_of(config)
    Path(key).chmod(mode)
    with pytest.raises(ConfigError, match=rf"{key}.*mode 0{mode:o}.*chmod 600"):
        security_of(config)


def test_a_key_in_the_certificates_file_is_no_exception(authority, tmp_path):
    mine, key = map(Path, authority.issue("client"))
    both = tmp_path / "both.pem"
    both.touch(0o644)
    both.write_text(mine.read_text() + key.read_text())
    config = trusting(authority, tls_cert_file=str(both))
    with pytest.raises(ConfigError, match="chmod 600"):
        security_of(config)
    both.chmod(0o600)
    security_of(config)


def test_an_encrypted_key_is_refused_and_nobody_asked_for_its_password(authority, tmp_path):
    mine, key = authority.issue("client")
    locked = tmp_path / "locked.key"
    authority._run("pkey", "-in", key, "-aes256", "-passout", "pass:x", "-out", locked)
    with pytest.raises(ConfigError, match="decrypt it"):
        security_of(trusting(authority, tls_cert_file=mine, tls_key_file=str(locked)))


# --- what speaks something else ----------------------------------------------------------------


def test_a_server_that_breaks_the_handshake_off_is_told(serve, dial, authority, in_thread):
    server = serve()
    opening = in_thread(dial, server.address, trusting(authority))
    peer = server.accept()
    peer.sock.recv(1)
    peer.close()
    with pytest.raises(ConnectFailed, match=r"speaks TLS 1.2.*tls=False"):
        opening.result(SOON)


def test_a_server_that_answers_in_plain_is_told(serve, dial, authority, in_thread):
    server = serve()
    opening = in_thread(dial, server.address, trusting(authority))
    server.accept().sock.sendall(encode_frame(reply_to(request(ASK))))
    with pytest.raises(ConnectFailed, match="tls=False"):
        opening.result(SOON)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_a_server_that_only_speaks_old_versions_is_told(serve, dial, authority):
    context = server_context(authority.issue("server"))
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    server = serve(context)
    with pytest.raises(ConnectFailed, match=r"TLS 1\.2 or newer"):
        dial(server.address, trusting(authority))


def test_versions_below_1_2_and_renegotiations_are_refused_by_us(monkeypatch):
    """This system's OpenSSL would refuse them by itself; one with older settings would not."""
    made = []

    def lax(protocol):
        made.append(ssl.SSLContext(protocol))
        made[0].minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        made[0].options &= ~ssl.OP_NO_RENEGOTIATION
        return made[0]

    lax_ssl = SimpleNamespace(**vars(ssl) | {"SSLContext": lax})
    monkeypatch.setattr(tls_module, "ssl", lax_ssl)
    security_of(ClientConfig(namesrv="nobody:1", tls=True))
    assert made[0].minimum_version == ssl.TLSVersion.TLSv1_2
    assert ssl.OP_NO_RENEGOTIATION in made[0].options


def test_a_handshake_without_answer_is_given_up_in_time(serve, dial, authority):
    server = serve()  # the kernel takes the connection, nobody says anything
    began = time.monotonic()
    with pytest.raises(ConnectFailed, match=r"took more than 0\.3 s"):
        dial(server.address, trusting(authority), connect_timeout=0.3)
    assert time.monotonic() - began < 15.0


def test_without_tls_a_server_that_says_nothing_may_demand_it(serve, dial, authority, in_thread):
    server = serve(server_context(authority.issue("server")))
    connection = dial(server.address, trusting(authority, tls=False, tls_ca_file=""))
    with pytest.raises(ConnectionLost, match=r"set tls=True \(ORDERLY_TLS\)"):
        connection.call(request(ASK), SOON)


# --- the stream --------------------------------------------------------------------------------


def test_replies_and_requests_go_both_ways_at_once(server, connect, in_thread):
    """An SSL object that two threads use at once breaks within a few of these."""
    connection = connect()
    peer = server.accept()
    bodies = [os.urandom(size) for size in (0, 1, 100, 16 * 1024, 16 * 1024 + 1, 300_000)]
    asked = threading.Semaphore(0)

    def echo():
        for _ in range(8 * 60):
            command = peer.read()
            asked.release()
            peer.answer(command, body=command.body)

    def call_all():
        for number in range(60):
            body = bodies[number % len(bodies)]
            assert connection.call(request(ASK, body=body), SOON).body == body

    echoing = in_thread(echo)
    for caller in [in_thread(call_all) for _ in range(8)]:
        caller.result(SOON)
    echoing.result(SOON)


def test_what_the_server_says_with_its_last_word_of_the_handshake_is_heard(server, connect, inbox):
    heard = inbox()
    connect(on_request=lambda _, command: heard(command))
    server.accept().send(request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": "g"}))
    assert heard.wait(1)[0].ext == {"consumerGroup": "g"}


def test_what_came_with_the_handshake_itself_is_not_left_there(authority, certificate):
    """Bytes that are read together with the handshake's last are the first of the stream."""
    ours, theirs = socket.socketpair()
    context = server_context(certificate)
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # there the server has the last word
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = context.wrap_bio(incoming, outgoing, server_side=True)

    def serve():
        while True:
            incoming.write(theirs.recv(65536))
            try:
                session.do_handshake()
            except ssl.SSLWantReadError:
                theirs.sendall(outgoing.read())
                continue
            session.write(b"at once")
            theirs.sendall(outgoing.read())  # with the handshake's end, in one packet
            return

    serving = threading.Thread(target=serve)
    serving.start()
    client = ssl.create_default_context(cafile=authority.ca)
    stream = TlsStream(ours, client, "localhost")
    stream.handshake(SOON)
    serving.join(SOON)
    ours.settimeout(SOON)
    assert stream.recv() == b"at once"
    ours.close()
    theirs.close()


def test_the_peers_goodbye_ends_the_connection_after_what_came_before(server, connect, in_thread):
    connection = connect()
    answer = in_thread(connection.call, request(ASK), SOON)
    peer = server.accept()
    peer.answer(peer.read(), body=b"last")
    peer.sock.settimeout(0)
    with pytest.raises(ssl.SSLWantReadError):
        peer.sock.unwrap()  # says goodbye and does not wait; the socket stays open
    assert answer.result(SOON).body == b"last"
    with pytest.raises(ConnectionLost, match="closed by the peer"):
        connection.call(request(ASK), SOON)


def test_bytes_that_were_changed_on_the_way_end_the_connection(server, connect):
    connection = connect()
    peer = server.accept()
    raw = socket.socket(fileno=os.dup(peer.sock.fileno()))
    raw.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))  # a record that nobody sealed
    with pytest.raises(ConnectionLost, match="not what TLS allows"):
        connection.call(request(ASK), SOON)
    raw.close()
