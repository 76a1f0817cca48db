"""Read tables of results with a mapping file, and report errors with their location."""

from __future__ import annotations

import io
import zipfile
from datetime import datetime
from pathlib import Path

import pytest
from openpyxl import Workbook

from vnetbench.errors import BenchError
from vnetbench.importers.runs import Run
from vnetbench.importers.table import is_table_file_name, read_table_mapping, read_table_runs, workbook_parts
from vnetbench.importers.table.mapping import SCALE_BY_METRIC_UNIT_AND_CELL_UNIT
from vnetbench.study.problems import StudyError

pytestmark = pytest.mark.pure

TABLES = Path(__file__).parent.parent / "data" / "tables"
STREAMS = """
workload = "tcp_stream"
[factor]
streams = "streams"
[metric]
goodput_bps = { column = "rate", unit = "Mbit/s" }
"""


def test_published_tables_are_read_row_by_row() -> None:
    runs = _read_files("ntttcp-vmxnet3-2011")

    assert len(runs) == 44
    assert runs[0].factors == {
        "adapter": "vmxnet3", "ip_version": "4", "label_host": "2x Xeon 5620",
        "label_guest": "Windows 2008R2",
        "label_receiver_cpus": "1", "label_outstanding_receives": "16", "mtu": 9000, "streams": 1,
        "pairs": 1, "message_size": 262144,
    }  # fmt: skip
    assert (runs[0].tool, runs[0].version, runs[0].reported_by) == ("NTttcp", "3.0", "receiver")
    assert _metric_values(runs[0]) == {
        "goodput_bps": 9853.56e6,
        "receiver_busy_percent": 38.1,
        "receiver_cycles_per_byte": 1.48,
        "receiver_interrupts_per_s": 22318,
    }
    assert runs[0].metrics["goodput_bps"].low == pytest.approx(9853.555e6)
    assert runs[-1].first_line == 45


def test_cells_are_mapped_to_levels_and_blank_cells_are_skipped() -> None:
    runs = _read_files("packet-forwarding-2011")

    assert len(runs) == 76
    assert runs[1].factors == {"adapter": "vf", "direction": "both", "label_pin": "#0"}
    assert _metric_values(runs[1]) == {"throughput_fps": 396494.6}
    assert runs[0].other_results == {"min_fps": "475260", "max_fps": "578445"}
    assert runs[10].other_results["host_rss_queues"] == "8,8"


def test_decimal_commas_dates_and_skipped_rows_follow_the_mapping() -> None:
    runs = _read_files("commas-cp1251")

    assert [run.first_line for run in runs] == [4, 5, 7]
    assert [run.started_at for run in runs] == [
        datetime(2025, 11, 5, *at) for at in ((9, 41), (9, 52), (10, 14))
    ]
    mib = 8 * 2**20
    assert [_metric_values(run)["goodput_bps"] / mib for run in runs] == pytest.approx(
        [741.5, 1092.25, 1187.05]
    )
    assert [_metric_values(run)["sender_busy_percent"] for run in runs] == [31.4, 44.0, 47.9]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_separator_is_detected_in_the_header(separator: str) -> None:
    text = "streams,rate\n4,100.5\n".replace(",", separator)

    (run,) = _read_text(STREAMS, text)

    assert (run.factors, _metric_values(run)) == ({"streams": 4}, {"goodput_bps": 100.5e6})


def test_a_workbook_is_read_like_a_text_file() -> None:
    rows: list[list[object]] = [
        ["streams", "rate", "at"],
        [4, 9853.5, datetime(2025, 1, 2, 3, 4)],
        [None, None, None],
        [8, 9900, None],
    ]
    mapping = 'started_at = "at"\nsheet = "Results"' + STREAMS

    first, second = _read_bytes(mapping, _make_workbook(rows), "a.xlsx")

    assert (first.first_line, first.factors) == (2, {"streams": 4})
    assert first.started_at == datetime(2025, 1, 2, 3, 4)
    value = first.metrics["goodput_bps"]
    assert (value.low, value.value, value.high) == pytest.approx((9853.45e6, 9853.5e6, 9853.55e6))
    assert (second.first_line, second.started_at) == (4, None)
    assert second.metrics["goodput_bps"].low == pytest.approx(9899.5e6)


@pytest.mark.parametrize(
    ("text", "where", "what", "fix"),
    [
        (
            "streams,rate\n4,100\n8,n/a\n",
            'a.csv, row 3, column "rate"',
            '"n/a" is not a number',
            "skip = [3]",
        ),
        ("streams,rate\nmany,100\n", 'a.csv, row 2, column "streams"', '"many"', "levels = {"),
        ('streams,rate\n4,"9,853"\n', 'a.csv, row 2, column "rate"', "ambiguous", 'decimal = ","'),
        ('streams,rate\n4,"nan"\n', 'a.csv, row 2, column "rate"', "is not a number", "blank"),
        ("streams,Rate\n4,100\n", "a.csv, row 1", 'the column "rate" is missing', 'did you mean "Rate"'),
        ("streams,rate,rate\n4,1,2\n", "a.csv, row 1", "the table has this column more than once", "rate"),
        ("", "a.csv", "no header row", "set header"),
    ],
)
def test_an_error_names_row_column_and_fix(text: str, where: str, what: str, fix: str) -> None:
    with pytest.raises(BenchError) as raised:
        _read_text(STREAMS, text)

    assert raised.value.where == where
    assert what in raised.value.what
    assert fix in (raised.value.fix or "")


@pytest.mark.parametrize(
    ("decimal", "cell", "value"),
    [(",", "9.853,56", 9853.56), (".", "9,853.56", 9853.56), (".", "9,853", 9853), (",", "9 853,5", 9853.5)],
)
def test_the_thousands_separator_follows_from_the_decimal_separator(
    decimal: str, cell: str, value: float
) -> None:
    (run,) = _read_text(f'decimal = "{decimal}"' + STREAMS, f"streams;rate\n1;{cell}\n")

    assert _metric_values(run)["goodput_bps"] == pytest.approx(value * 1e6)


@pytest.mark.parametrize("cell", ["9.8.5", "1,23,4", "12,34", "1.5,5,5"])
def test_misplaced_thousands_separators_are_an_error(cell: str) -> None:
    with pytest.raises(BenchError, match="is not a number"):
        _read_text('decimal = "."' + STREAMS, f"streams;rate\n1;{cell}\n")


def test_all_errors_of_a_mapping_are_reported_with_their_lines() -> None:
    text = """workload = "tcp"
colour = "red"
[factor]
stream = "a"
[metric]
goodput_bps = { column = "rate", unit = "Mb" }
rtt_us = "rtt"
speed = "x"
[set]
mtu = "small"
"""
    with pytest.raises(StudyError) as raised:
        read_table_mapping(text, "m.toml")

    problems = {problem.where: problem for problem in raised.value.problems}
    assert list(problems) == [f"m.toml:{line}" for line in (1, 2, 4, 6, 7, 8, 10)]
    assert 'did you mean "streams"' in problems["m.toml:4"].fix
    assert "MiB/s" in problems["m.toml:6"].fix
    assert "the unit of the column is missing" in problems["m.toml:7"].what


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "has no workload"),
        ('workload = "tcp_stream"', "has no metric"),
        ('workload = "tcp_stream"\nmetric = 3', "is a section"),
        (
            'workload = "tcp_rr"\n[factor]\nstreams = "s"\n[metric]\nrtt_us = { column = "r", unit = "ms" }',
            "tcp_rr",
        ),
        ("workload = ", ""),
    ],
)
def test_an_invalid_mapping_is_refused(text: str, what: str) -> None:
    with pytest.raises(StudyError) as raised:
        read_table_mapping(text, "m.toml")

    assert what in str(raised.value)


def test_invalid_and_huge_workbooks_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BenchError, match="cannot read the file as a workbook"):
        _read_bytes(STREAMS, b"PK\x03\x04 nothing", "a.xlsx")
    hollow = io.BytesIO()
    with zipfile.ZipFile(hollow, "w") as parts:
        parts.writestr("[Content_Types].xml", "<Types/>")
    with pytest.raises(BenchError, match="cannot read the file as a workbook"):
        _read_bytes(STREAMS, hollow.getvalue(), "a.xlsx")
    with pytest.raises(BenchError, match='has no sheet "Other"'):
        _read_bytes('sheet = "Other"' + STREAMS, _make_workbook([["streams", "rate"]]), "a.xlsx")
    for limit, message in (
        ("MAX_UNPACKED_WORKBOOK_BYTES", "unpacks to"),
        ("MAX_WORKBOOK_TAGS", "XML tags"),
        ("MAX_STYLE_TAGS", "XML tags"),
        ("MAX_WORKBOOK_PARTS", "parts"),
    ):
        with monkeypatch.context() as patch, pytest.raises(BenchError, match=message):
            patch.setattr(workbook_parts, limit, 5)
            _read_bytes(STREAMS, _make_workbook([["streams", "rate"]]), "a.xlsx")


def test_the_mapping_in_the_documentation_is_valid() -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "importers.md").read_text()
    example = page.split("```toml\n")[1].split("```")[0]

    mapping = read_table_mapping(example, "mapping.toml")

    assert [each.metric for each in mapping.metrics] == [
        "goodput_bps", "receiver_busy_percent", "receiver_cycles_per_byte", "rtt_us",
    ]  # fmt: skip
    assert mapping.skip == {17, 18}
    assert all(unit in page for units in SCALE_BY_METRIC_UNIT_AND_CELL_UNIT.values() for unit in units)


def test_a_table_is_recognized_by_its_file_name() -> None:
    assert [is_table_file_name(name) for name in ("a.csv", "A.XLSX", "b.tsv", "a.log")] == [
        True,
        True,
        True,
        False,
    ]


def _read_files(name: str) -> list[Run]:
    mapping = read_table_mapping((TABLES / f"{name}.toml").read_text(), f"{name}.toml")
    with (TABLES / f"{name}.csv").open("rb") as stream:
        return list(read_table_runs(stream, f"{name}.csv", mapping))


def _read_text(mapping: str, text: str) -> list[Run]:
    return _read_bytes(mapping, text.encode(), "a.csv")


def _read_bytes(mapping: str, data: bytes, name: str) -> list[Run]:
    return list(read_table_runs(io.BytesIO(data), name, read_table_mapping(mapping, "m.toml")))


def _make_workbook(rows: list[list[object]]) -> bytes:
    book, stream = Workbook(), io.BytesIO()
    sheet = book.active
    sheet.title = "Results"
    for row in rows:
        sheet.append(row)
    book.save(stream)
    return stream.getvalue()


def _metric_values(run: Run) -> dict[str, float]:
    return {name: value.value for name, value in run.metrics.items()}
