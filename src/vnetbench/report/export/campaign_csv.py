"""The CSV of `vnetbench show --csv` (docs/show-json.md)."""

from __future__ import annotations

import csv
import io
import re

from vnetbench.estimate.model import Estimate
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.printable import make_printable
from vnetbench.report.tables.columns import search_columns
from vnetbench.report.text.emulation_warning import find_accelerator
from vnetbench.wording.estimate_text import measured_metrics

_FORMULA_START = re.compile(r"(^|[;|]\s*)(?=[=+\-@\uff1d\uff0b\uff0d\uff20])")
"""Where a spreadsheet would see a formula: also behind `;`, which separates cells in many countries, and with
the wide characters that Japanese versions accept."""


def campaign_csv(summary: CampaignSummary) -> str:
    """Return one row per treatment, in base units and with line ends as in RFC 4180.

    Each metric has four columns: value, low, high and modes (`value*share`, separated by spaces). An empty
    cell means that there is no number. A search adds the column `limited_by`, guests add `accelerator`.
    """
    factors = [factor.name for factor in summary.factors]
    metrics = measured_metrics(summary.treatments)
    metric_columns = [f"{metric}{part}" for metric in metrics for part in ("", "_low", "_high", "_modes")]
    limit_columns = search_columns(summary.treatments)[:1]
    accelerator = find_accelerator(summary)
    accelerator_cells = [] if accelerator is None else [accelerator]
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(
        _to_safe_cell(cell)
        for cell in [
            "treatment",
            *factors,
            "trials",
            "stopped_by",
            *metric_columns,
            "failures",
            *(column.key for column in limit_columns),
            *(["accelerator"] if accelerator_cells else []),
        ]
    )
    for row_index, treatment in enumerate(summary.treatments):
        cells: list[object] = [treatment.index, *(treatment.factors.get(name, "") for name in factors)]
        cells += [treatment.trial_count, treatment.stop_reason]
        for metric in metrics:
            cells += _value_interval_modes_cells(treatment.metrics.get(metric))
        limits = ["; ".join(column.cells[row_index]) for column in limit_columns]
        row = [*cells, "; ".join(treatment.failures), *limits, *accelerator_cells]
        writer.writerow(_to_safe_cell(cell) for cell in row)
    return text.getvalue()


def _to_safe_cell(cell: object) -> object:
    """Return a text without control characters, with an apostrophe where a spreadsheet would calculate it.

    The characters are those of https://owasp.org/www-community/attacks/CSV_Injection. Numbers stay numbers.
    """
    if not isinstance(cell, str):
        return cell
    text = " ".join(make_printable(line) for line in cell.strip().splitlines())
    return _FORMULA_START.sub(r"\1'", text)


def _value_interval_modes_cells(estimate: Estimate | None) -> list[object]:
    if estimate is None:
        return ["", "", "", ""]
    modes = " ".join(f"{mode.value}*{mode.share}" for mode in estimate.modes)
    interval = ["" if end is None else end for end in (estimate.low, estimate.high)]
    return [estimate.value, *interval, modes]
