"""Make archives of each format that state wrong sizes, or need far more memory or time than their size."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Mapping

MIB = 2**20
BOMB_BYTES = 192 * MIB
"""What a bomb unpacks to: more than a test's limit of memory, less than what archives may unpack to."""
TEXT = b"toy 1.2\n= 800 Mbit/s 10.0 s\n"


def make_tar(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    """Return a tar with these headers and data, whatever the headers say about the data."""
    blocks = b"".join(
        header.tobuf(tarfile.GNU_FORMAT) + data + b"\0" * (-len(data) % tarfile.BLOCKSIZE)
        for header, data in members
    )
    return blocks + b"\0" * 2 * tarfile.BLOCKSIZE


def make_tar_header(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
    header = tarfile.TarInfo(name)
    header.size, header.type = size, kind
    return header


def compress_zeros(size: int, begin: bytes = b"", end: bytes = b"", byte: bytes = b"0") -> bytes:
    """Return a gzip file of `begin`, very many equal bytes, and `end`."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    pieces = [compressor.compress(begin)]
    pieces += [compressor.compress(byte * MIB) for _ in range(size // MIB)]
    return b"".join([*pieces, compressor.compress(end), compressor.flush()])


def make_long_header_tar_gz(kind: bytes) -> bytes:
    """Return a tar.gz with an extended header of 192 MiB."""
    begin = make_tar_header("header", BOMB_BYTES, kind).tobuf(tarfile.GNU_FORMAT)
    return compress_zeros(BOMB_BYTES, begin, make_tar((make_tar_header("a.log", len(TEXT)), TEXT)), b"1")


def make_sparse_tar_gz() -> bytes:
    """Return a tar.gz with a GNU sparse file whose map has very many parts."""
    header = bytearray(make_tar_header("a.log", 0, tarfile.GNUTYPE_SPARSE).tobuf(tarfile.GNU_FORMAT))
    header[482] = 1
    header[148:156] = b"        "
    header[148:156] = b"%06o\0 " % sum(header)
    part = b"%011o\0%011o\0" % (0, 1)
    block = (part * 21).ljust(504, b"\0") + b"\1" + b"\0" * 7
    return gzip.compress(bytes(header) + block * 60_000, 1)


def make_sparse_pax_tar_gz() -> bytes:
    """Return a tar.gz with a sparse file of version 1.0, whose map is a list of a billion numbers."""
    records = b"".join(
        b"%d %s\n" % (len(record) + 4, record)
        for record in (b"GNU.sparse.major=1", b"GNU.sparse.minor=0", b"GNU.sparse.realsize=5")
    )
    members = make_tar(
        (make_tar_header("header", len(records), tarfile.XHDTYPE), records),
        (make_tar_header("a.log", 150 * MIB), b""),
    )[: 3 * tarfile.BLOCKSIZE]
    return gzip.compress(members + b"1000000000\n" + b"7\n" * (20 * MIB))


def make_quadratic_pax_tar_gz() -> bytes:
    """Return a tar.gz of which each header makes a search for records take quadratic time."""
    records = b"1" * 65_000
    member = (make_tar_header("header", len(records), tarfile.XHDTYPE), records)
    return gzip.compress(make_tar(*[member] * 20))


def make_many_members_tar_gz() -> bytes:
    """Return a tar.gz with 300,000 folders."""
    header = make_tar_header("folder", 0, tarfile.DIRTYPE).tobuf(tarfile.GNU_FORMAT)
    return gzip.compress(header * 300_000, 1)


def make_large_dictionary_xz() -> bytes:
    """Return an xz file that says that unpacking it needs 1 GiB."""
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 2**27}]
    small = bytearray(lzma.compress(TEXT, format=lzma.FORMAT_XZ, filters=filters))
    # The block header starts behind the stream header of 12 bytes: size, flags, filter, size of properties,
    # dictionary, padding, CRC32.
    size = 4 * (small[12] + 1)
    small[12 + 4] = 36  # 2^30, RFC draft "The .xz File Format", 5.3.1
    small[12 + size - 4 : 12 + size] = struct.pack("<I", zlib.crc32(small[12 : 12 + size - 4]))
    return bytes(small)


def make_zip(
    members: Mapping[str, bytes],
    compression: int = zipfile.ZIP_DEFLATED,
    stated_size: int | None = None,
) -> bytes:
    """Return a zip; `stated_size` is what its list of members says about every size of content."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        for member in archive.infolist():
            member.file_size = member.file_size if stated_size is None else stated_size
    return out.getvalue()


def make_bomb_zip(compression: int, stated_size: int | None = None) -> bytes:
    """Return a zip with one log that unpacks to 192 MiB."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        with archive.open("a.log", "w", force_zip64=True) as member:
            for _ in range(BOMB_BYTES // MIB):
                member.write(b"0" * MIB)
        if stated_size is not None:
            archive.infolist()[0].file_size = stated_size
    return out.getvalue()


def make_long_directory_zip() -> bytes:
    """Return a gzip file of a zip whose list of members has 150 MiB of headers without files."""
    entry = struct.pack("<4s4B4HL2L5H2L", b"PK\1\2", *[20, 3, 20, 0], *[0] * 4, *[0] * 3, *[0] * 5, *[0] * 2)
    count = 150 * MIB // len(entry)
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 65535, 65535, count * len(entry), 4, 0)
    return gzip.compress(b"PK\3\4" + entry * count + end, 1)


def make_empty_files(pack: Callable[[bytes], bytes]) -> bytes:
    """Return very many compressed files without content, concatenated and compressed again."""
    return gzip.compress(pack(b"") * 1_000_000, 1)


def make_long_names_tar_gz() -> bytes:
    """Return a tar.gz with 4,000 logs whose names have 60,000 characters each."""
    name = b"n" * 60_000
    members = (
        make_tar_header("name", len(name) + 1, tarfile.GNUTYPE_LONGNAME), name + b"\0"
    ), (make_tar_header("a.log", len(TEXT)), TEXT)  # fmt: skip
    one = make_tar(*members)[: -2 * tarfile.BLOCKSIZE]
    return gzip.compress(one * 4_000, 1)


TEST_ARCHIVES: Mapping[str, Callable[[], bytes]] = {
    "gz: very many equal bytes": lambda: compress_zeros(BOMB_BYTES),
    "gz: very many blank lines": lambda: gzip.compress(b"\n" * 6_000_000, 9),
    "gz: very many files without content": lambda: make_empty_files(gzip.compress),
    "bz2: very many equal bytes": lambda: bz2.compress(b"0" * BOMB_BYTES),
    "bz2: very many files without content": lambda: make_empty_files(bz2.compress),
    "xz: very many equal bytes": lambda: lzma.compress(b"0" * BOMB_BYTES, preset=0),
    "xz: very many files without content": lambda: make_empty_files(lzma.compress),
    "xz: large dictionary": make_large_dictionary_xz,
    "zip: stored": lambda: make_zip({"a.log": TEXT * 10}, zipfile.ZIP_STORED, stated_size=2**31),
    "zip: deflate": lambda: make_bomb_zip(zipfile.ZIP_DEFLATED),
    "zip: deflate, stated size too small": lambda: make_bomb_zip(zipfile.ZIP_DEFLATED, 5),
    "zip: deflate, stated size too large": lambda: make_zip({"a.log": TEXT}, stated_size=2**31),
    "zip: bzip2": lambda: make_bomb_zip(zipfile.ZIP_BZIP2),
    "zip: bzip2, stated size too small": lambda: make_bomb_zip(zipfile.ZIP_BZIP2, 5),
    "zip: LZMA": lambda: make_bomb_zip(zipfile.ZIP_LZMA),
    "zip: LZMA, stated size too small": lambda: make_bomb_zip(zipfile.ZIP_LZMA, 5),
    "zip: long list of members": make_long_directory_zip,
    "tar: long pax header": lambda: make_long_header_tar_gz(tarfile.XHDTYPE),
    "tar: long global pax header": lambda: make_long_header_tar_gz(tarfile.XGLTYPE),
    "tar: long Solaris pax header": lambda: make_long_header_tar_gz(tarfile.SOLARIS_XHDTYPE),
    "tar: long GNU name": lambda: make_long_header_tar_gz(tarfile.GNUTYPE_LONGNAME),
    "tar: long GNU link": lambda: make_long_header_tar_gz(tarfile.GNUTYPE_LONGLINK),
    "tar: long map of a sparse file": make_sparse_tar_gz,
    "tar: long pax map of a sparse file": make_sparse_pax_tar_gz,
    "tar: digits in pax headers": make_quadratic_pax_tar_gz,
    "tar: very many members": make_many_members_tar_gz,
    "tar: long names": make_long_names_tar_gz,
}
