"""Reading what a command is given: a results file with the proof beside it, or a published table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from vnetbench.errors import BenchError
from vnetbench.estimate.experiments import belongs, experiments_of, study_hash
from vnetbench.estimate.published_reference import PREFIX, reference_summary
from vnetbench.estimate.summarize import summarize
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.results.file import ResultsFile


def read_summary(path: Path) -> CampaignSummary:
    """Of a results file, or of a published table that is named in its place; raises BenchError.

    What a proof beside the file found is in it, where it is of the same study.
    """
    if str(path).startswith(PREFIX):
        return reference_summary(str(path).removeprefix(PREFIX))
    summary, beside = read_file(path), proof_path(path)
    if not beside.exists():
        return summary
    try:
        proof = read_file(beside)
    except BenchError as error:
        return replace(summary, about_proof=f"{beside.name} lies beside and is not used: {error.what}")
    if belongs(proof, summary):
        experiments = experiments_of(proof)
        use = "it is used" if experiments else "it has nothing to compare, and is not used"
        told = f"{beside.name} lies beside and is of the same study (SHA-256 {study_hash(proof)}…): {use}"
        return replace(summary, experiments=experiments, about_proof=told)
    told = (
        f"{beside.name} lies beside and is not used: it is of another study "
        f"(SHA-256 {study_hash(proof)}…, here {study_hash(summary)}…)"
    )
    return replace(summary, about_proof=told)


def read_file(path: Path) -> CampaignSummary:
    """Of a results file alone; raises BenchError."""
    file = ResultsFile.open_to_read(path)
    try:
        return summarize(file)
    finally:
        file.close()


def proof_path(results: Path) -> Path:
    """Where what was run to prove an explanation lies: `jumbo.proof.vnb` beside `jumbo.vnb`."""
    return results.with_name(f"{results.stem}.proof.vnb")
