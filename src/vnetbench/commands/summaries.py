"""Read the estimates of a results file with its proof file, or of a published table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from vnetbench.errors import BenchError
from vnetbench.estimate.experiments import estimate_experiments, has_same_study, short_study_hash
from vnetbench.estimate.matching import all_levels
from vnetbench.estimate.published_reference import PUBLISHED_TABLE_PATH_PREFIX, published_table_summary
from vnetbench.estimate.stored_summary import read_or_compute_summary
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.explain.interventions.measured_cpu_ratios import replace_cpu_ratios_with_measured
from vnetbench.explain.interventions.unchanged_resources import mark_unchanged_resources
from vnetbench.results.file import ResultsFile
from vnetbench.results.validation import translate_value_errors
from vnetbench.wording.factor_text import treatment_phrase


def read_summary_with_experiments(path: Path) -> CampaignSummary:
    """Return the estimates of a results file or of a published table (`reference:NAME`).

    Experiments of a proof file next to the results file are included if both are of the same study.

    Raises:
        BenchError: The file cannot be read.
    """
    if str(path).startswith(PUBLISHED_TABLE_PATH_PREFIX):
        return published_table_summary(str(path).removeprefix(PUBLISHED_TABLE_PATH_PREFIX))
    summary, proof_file = read_summary_without_experiments(path), proof_file_path(path)
    if not proof_file.exists():
        return summary
    try:
        proof = read_summary_without_experiments(proof_file)
    except BenchError as error:
        return replace(
            summary, proof_file_note=f"the proof file {proof_file.name} is not used, because {error.what}"
        )
    if has_same_study(proof, summary):
        with translate_value_errors(proof_file):
            measured = replace_cpu_ratios_with_measured(estimate_experiments(proof), proof)
            experiments = mark_unchanged_resources(measured, proof)
        outcome = "is included" if experiments else "has nothing to compare"
        note = (
            f"the proof file {proof_file.name} belongs to this study (SHA-256 {short_study_hash(proof)}…) "
            f"and {outcome}"
        )
        return replace(summary, experiments=experiments, proof_file_note=note)
    note = (
        f"the proof file {proof_file.name} is not used, because it belongs to another study "
        f"(SHA-256 {short_study_hash(proof)}…, this study has {short_study_hash(summary)}…)"
    )
    return replace(summary, proof_file_note=note)


def read_summary_without_experiments(path: Path) -> CampaignSummary:
    """Return the estimates of a results file without the experiments of its proof file; raises BenchError."""
    file = ResultsFile.open_to_read(path)
    try:
        # The file's reader checks each value. What several values mean together, only their use shows.
        with translate_value_errors(path):
            summary = read_or_compute_summary(file)
            for treatment in summary.treatments:  # a level may be none of its factor's
                treatment_phrase(treatment.factors, tuple(treatment.factors))
                all_levels(summary, treatment)
            return summary
    finally:
        file.close()


def proof_file_path(results: Path) -> Path:
    """Return the path of the file with the experiments: `jumbo.proof.vnb` for `jumbo.vnb`."""
    return results.with_name(f"{results.stem}.proof.vnb")
