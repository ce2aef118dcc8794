import sys
import tracemalloc
import zlib

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from orderly.errors import ProtocolError
from orderly.protocol.compression import Compression, compress_zlib, decompress


def zstd_without_size(data):
    compressor = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    return compressor.compress(data) + compressor.flush()


COMPRESSORS = [
    pytest.param(Compression.OLD_ZLIB, compress_zlib, id="old zlib"),
    pytest.param(Compression.ZLIB, compress_zlib, id="zlib"),
    pytest.param(Compression.LZ4, lz4.frame.compress, id="lz4"),
    pytest.param(Compression.ZSTD, zstandard.ZstdCompressor().compress, id="zstd"),
    pytest.param(Compression.ZSTD, zstd_without_size, id="zstd, size unknown"),
]


@pytest.mark.parametrize(("kind", "compress"), COMPRESSORS)
@given(data=st.binary(max_size=2000))
def test_a_body_survives_compression_at_the_very_limit(kind, compress, data):
    assert decompress(kind, compress(data), len(data)) == data


@pytest.mark.parametrize(("kind", "compress"), COMPRESSORS)
def test_one_byte_beyond_the_limit_is_refused(kind, compress):
    with pytest.raises(ProtocolError):
        decompress(kind, compress(bytes(1001)), 1000)


@pytest.mark.parametrize(("kind", "compress"), COMPRESSORS)
def test_a_bomb_is_refused_without_being_unpacked(kind, compress):
    bomb = compress(bytes(100_000_000))
    tracemalloc.start()
    with pytest.raises(ProtocolError):
        decompress(kind, bomb, 1_000_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20_000_000


@pytest.mark.parametrize(("kind", "compress"), COMPRESSORS)
def test_a_cut_body_is_refused(kind, compress):
    data = compress(b"some text, some text, some more text" * 10)
    for size in range(len(data)):
        with pytest.raises(ProtocolError):
            decompress(kind, data[:size], 10_000)


@pytest.mark.parametrize("kind", Compression)
@given(data=st.binary(max_size=100))
def test_garbage_gives_bytes_or_a_protocol_error(kind, data):
    try:
        decompress(kind, data, 10_000)
    except ProtocolError:
        return


def test_an_unknown_kind_is_refused():
    with pytest.raises(ProtocolError, match="unknown"):
        decompress(7, b"", 10)


@pytest.mark.parametrize(
    ("kind", "module"), [(Compression.LZ4, "lz4.frame"), (Compression.ZSTD, "zstandard")]
)
def test_without_the_extra_the_error_names_it(kind, module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ProtocolError, match=r"rocketmq-orderly\[speed\]"):
        decompress(kind, b"", 10)


def test_zlib_is_the_form_any_inflater_reads():
    assert zlib.decompress(compress_zlib(b"x" * 5000)) == b"x" * 5000
