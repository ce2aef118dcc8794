"""For tests: a broker that knows its users (ACL 2.0), their keys and policies."""

import json

from orderly.protocol.frame import request

_AUTH = "org.apache.rocketmq.auth"
_CREATE_USER, _CREATE_ACL = 3001, 3006
ADMIN = {"access_key": "admin", "secret_key": "admin-secret-1"}
PROPERTIES = {
    "authenticationEnabled": "true",
    "authenticationMetadataProvider": f"{_AUTH}.authentication.provider"
    ".LocalAuthenticationMetadataProvider",
    "authorizationEnabled": "true",
    "authorizationMetadataProvider": f"{_AUTH}.authorization.provider"
    ".LocalAuthorizationMetadataProvider",
    "initAuthenticationUser": json.dumps(
        {"username": ADMIN["access_key"], "password": ADMIN["secret_key"]}
    ),
    # What the broker itself signs with: its requests to other brokers, and to itself.
    "innerClientAuthenticationCredentials": json.dumps(
        {"accessKey": "inner", "secretKey": "inner-secret-1"}
    ),
}


def add_user(client, address, name, allowed):
    """Create a user and return its keys.

    Args:
        client: an administrator's.
        address: of the broker.
        name: the access key.
        allowed: actions ("Pub", "Sub", "Get", …) by resource ("Topic:orders", "Group:g").
    """
    secret = f"{name}-secret-1"
    user = {"username": name, "password": secret, "userType": "Normal", "userStatus": "enable"}
    _ask(client, address, _CREATE_USER, {"username": name}, user)
    entries = [
        {"resource": resource, "actions": list(actions), "decision": "Allow"}
        for resource, actions in allowed.items()
    ]
    subject = f"User:{name}"
    policies = [{"policyType": "Custom", "entries": entries}]
    acl = {"subject": subject, "policies": policies}
    _ask(client, address, _CREATE_ACL, {"subject": subject}, acl)
    return {"access_key": name, "secret_key": secret}


def _ask(client, address, code, ext, body):
    command = request(code, ext, json.dumps(body).encode())
    reply = client.connections.get(address).call(command, 5.0)
    assert reply.code == 0, reply.remark
