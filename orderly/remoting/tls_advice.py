"""Why a TLS connection failed, in words that say what to do. Pure."""

from __future__ import annotations

import ssl

_AUTHORITY = (
    "no authority that is trusted here signed its certificate; set tls_ca_file"
    " (ORDERLY_TLS_CA_FILE) to the certificate of the authority that did, in PEM"
)
_NAME = (
    "its certificate is for another host; have it issued for this one, use the name it is for"
    " (brokers announce their brokerIP1), or check no names: set tls_verify='chain' and tls_ca_file"
)
_REFUSED = (
    "it refuses this client's certificate; set tls_cert_file and tls_key_file to one that is not"
    " expired and that an authority which it trusts has signed"
)
_NO_TLS = (
    "it broke the handshake off; check that it speaks TLS 1.2 or newer there (tls.server.mode)."
    " To a server without TLS connect with tls=False"
)
_VERIFIED: dict[int, str] = {  # OpenSSL's verify codes, X509_V_ERR_…
    9: "its certificate is not valid yet; check the clocks of both machines",
    10: "its certificate has expired; it needs a new one (or the clock of this machine is wrong)",
    18: _AUTHORITY,  # DEPTH_ZERO_SELF_SIGNED_CERT
    19: _AUTHORITY,  # SELF_SIGNED_CERT_IN_CHAIN
    20: _AUTHORITY,  # UNABLE_TO_GET_ISSUER_CERT_LOCALLY
    21: _AUTHORITY,  # UNABLE_TO_VERIFY_LEAF_SIGNATURE
    62: _NAME,  # HOSTNAME_MISMATCH
    64: _NAME,  # IP_ADDRESS_MISMATCH
}
_OUR_CERTIFICATE = ("CERTIFICATE", "UNKNOWN_CA")  # in the names of a peer's alerts about ours


def handshake_advice(error: OSError, timeout: float) -> str:
    """Say what a failed handshake means.

    Args:
        error: what it raised.
        timeout: seconds it was given.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        known = _VERIFIED.get(error.verify_code, "its certificate is not accepted")
        return f"{known} ({error.verify_message})"
    if isinstance(error, TimeoutError):
        return f"the handshake took more than {timeout:g} s; {_NO_TLS}"
    if isinstance(error, ssl.SSLError):
        return alert_advice(error)
    return f"{_NO_TLS} ({error})"


def alert_advice(error: ssl.SSLError) -> str:
    """Say what the end of an encrypted stream means.

    With TLS 1.3 a peer refuses this client's certificate after the client took the handshake for
    done.
    """
    reason = error.reason or str(error)
    if "ALERT" in reason and any(word in reason for word in _OUR_CERTIFICATE):
        return f"{_REFUSED} ({reason})"
    if "ALERT" in reason or error.reason in ("WRONG_VERSION_NUMBER", "UNSUPPORTED_PROTOCOL"):
        return f"{_NO_TLS} ({reason})"
    return f"the stream is not what TLS allows ({reason})"
