"""The proxy's page: two proxies stand for one of the fake broker's."""


def before(room, _block):
    """Name the proxy as the page does."""
    room.special["REPLACE"] = {"proxy-1:8080;proxy-2:8080": room.broker.proxy}
