"""Classes of RocketMQ that are changed so that all listens on loopback."""

import zipfile

import pytest

from orderly.errors import EmbeddedBrokerError
from orderly.testing.loopback import changed_classes
from orderly.testing.settings import BROKER, NAME_SERVER, PROXY

HA = "org/apache/rocketmq/store/ha/"
ADDRESS = b"\x01\x00\x1ajava/net/InetSocketAddress"


def jar(folder, name, **classes):
    path = folder / f"{name}-5.9.9.jar"
    with zipfile.ZipFile(path, "w") as archive:
        for each, content in classes.items():
            archive.writestr(HA + each, content)
    return path


@pytest.mark.parametrize("service", ["DefaultHAService", "HAService"], ids=["5.x", "4.9"])
def test_the_address_at_which_replication_listens_is_changed(tmp_path, service):
    name = f"{service}$AcceptSocketService.class"
    other = {"HAConnection.class": ADDRESS}
    store = jar(tmp_path, "rocketmq-store", **{name: b"a" + ADDRESS + b"b"}, **other)
    changed = changed_classes(BROKER, [tmp_path / "other-1.jar", store])
    assert set(changed) == {HA + name, "orderly/LoopbackAddress.class"}
    assert changed[HA + name] == b"a\x01\x00\x17orderly/LoopbackAddressb"
    assert changed["orderly/LoopbackAddress.class"].startswith(b"\xca\xfe\xba\xbe")


@pytest.mark.parametrize("content", [b"", ADDRESS + ADDRESS, None], ids=["none", "two", "no class"])
@pytest.mark.parametrize("main", [BROKER, PROXY])
def test_a_release_that_cannot_be_kept_there_is_refused(tmp_path, content, main):
    name = "DefaultHAService$AcceptSocketService.class"
    classes = {} if content is None else {name: content}
    jars = [jar(tmp_path, each, **classes) for each in ("rocketmq-store", "rocketmq-remoting")]
    with pytest.raises(EmbeddedBrokerError, match=r"cannot be kept on 127\.0\.0\.1"):
        changed_classes(main, jars)
    with pytest.raises(EmbeddedBrokerError, match="missing"):
        changed_classes(main, [])


def test_a_name_server_has_a_setting_for_it():
    assert changed_classes(NAME_SERVER, []) == {}
