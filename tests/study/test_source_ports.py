"""The factor `source_ports`: its levels, and the treatments that have too few ports."""

from __future__ import annotations

import pytest

from tests.study.test_study_load import only_problem
from vnetbench.study.factors.load_factors import SOURCE_PORTS
from vnetbench.study.factors.port_ranges import parse_port_range
from vnetbench.study.file.load import parse_study
from vnetbench.study.problems import WrongValue

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("written", "level", "ports"),
    [
        ("any", "any", None),
        (" spread ", "spread", None),
        ("consecutive", "consecutive", None),
        ("50000 - 50015", "50000-50015", range(50000, 50016)),
        ("65535-65535", "65535-65535", range(65535, 65536)),
    ],
)
def test_a_level_is_a_keyword_or_a_range(written: str, level: str, ports: range | None) -> None:
    assert SOURCE_PORTS.value_type.parse(written) == level
    assert parse_port_range(level) == ports


@pytest.mark.parametrize(
    ("written", "what", "fix"),
    [
        ("50015-50000", 'the range "50015-50000" goes down', 'write "50000-50015"'),
        ("80-90", "has ports that an endpoint cannot use", "use ports from 1024 to 65535"),
        ("65000-70000", "has ports that an endpoint cannot use", "use ports from 1024 to 65535"),
        ("spred", "is not a range of ports", 'did you mean "spread"?'),
        ("50000", "is not a range of ports", 'such as "50000-50015"'),
        (50000, "is not a range of ports", 'such as "50000-50015"'),
        (True, "is not a range of ports", 'such as "50000-50015"'),
    ],
)
def test_an_invalid_level_is_an_error_with_a_fix(written: object, what: str, fix: str) -> None:
    with pytest.raises(WrongValue) as caught:
        SOURCE_PORTS.value_type.parse(written)
    assert (what in caught.value.what, fix in str(caught.value.fix)) == (True, True)


@pytest.mark.parametrize(
    ("workload", "factors", "needed"),
    [
        ("tcp_stream", "streams = 5", 5),
        ("tcp_stream", 'streams = 4\ndirection = "both"', 8),
        ("tcp_rr", "connections = 9", 9),
        ("udp_stream", 'streams = 5\ndirection = "both"', 5),
        ("udp_stream", 'streams = 2\ndirection = "3/1"', 6),
        ("mixed", "connections = 3\nstreams = 2", 5),
    ],
)
def test_a_range_with_fewer_ports_than_streams_is_refused(workload: str, factors: str, needed: int) -> None:
    def study(last_port: int) -> str:
        range_of_ports = f'["any", "spread", "50000-{last_port}"]'
        return (
            f'title = "T"\nworkload = "{workload}"\n[factors]\nsource_ports = {range_of_ports}\n{factors}\n'
        )

    parse_study(study(49999 + needed), "s.toml")
    problem = only_problem(study(49998 + needed))
    assert f"an endpoint needs {needed}, one for each stream" in problem.what
    assert f"name at least {needed} ports" in str(problem.fix)


def test_vsock_and_other_workloads_have_no_source_ports() -> None:
    vsock = (
        'title = "T"\n[testbed]\nlab = "qemu"\n[factors]\nrole = "guest-to-host"\ntransport = "vsock"\n'
        'source_ports = "spread"\n'
    )
    assert "source_ports is not possible with transport = vsock" in only_problem(vsock).what
    for workload in ("tcp_crr", "frames"):
        study = f'title = "T"\nworkload = "{workload}"\n[factors]\nsource_ports = "spread"\n'
        assert only_problem(study).what.endswith(f"is not a factor of the workload {workload}")
