"""Factors of VMs that vSphere runs: settings of their adapters and of their scheduling."""

from __future__ import annotations

from vnetbench.study.factors import value_types
from vnetbench.study.factors.factor import Factor
from vnetbench.study.labs import VSPHERE

LATENCY_SENSITIVITY = Factor(
    "latency_sensitivity",
    value_types.keywords("normal", "high"),
    unit="",
    default=None,
    description="vSphere's latency sensitivity of the VM. `high` needs all of the VM's memory reserved; "
    "without that, vSphere refuses to start the VM, and the treatment is refused.",
    examples=('["normal", "high"]', '"high"'),
    labs=(VSPHERE,),
)

COALESCING_SCHEME = Factor(
    "coalescing_scheme",
    value_types.keywords("disabled", "adapt", "static", "rbc"),
    unit="",
    default=None,
    description="How ESXi coalesces the interrupts of a vmxnet3 adapter: the VM's entry "
    "`ethernetX.coalescingScheme`. `disabled`: each packet may interrupt.",
    examples=('["disabled", "rbc"]', '"disabled"'),
    labs=(VSPHERE,),
)

CTX_PER_DEV = Factor(
    "ctx_per_dev",
    value_types.integers(1, 3),
    unit="1",
    default=None,
    description="Threads of ESXi that transmit for the VM: its entry `ethernetX.ctxPerDev`. 1: one thread "
    "for the adapter. 2: one for the VM. 3: up to eight for the adapter.",
    examples=("[1, 3]", "3"),
    labs=(VSPHERE,),
    label="Transmit contexts",
    phrase_template="ctxPerDev {}",
)

PNIC_FEATURES = Factor(
    "pnic_features",
    value_types.integers(0, 255),
    unit="1",
    default=None,
    description="Features of the physical adapter that the VM's adapter requests: its entry "
    "`ethernetX.pnicFeatures`. 4: receive side scaling (RSS).",
    examples=("[0, 4]", "4"),
    labs=(VSPHERE,),
    label="Physical adapter features",
    phrase_template="pnicFeatures {}",
)

VSPHERE_FACTORS = (LATENCY_SENSITIVITY, COALESCING_SCHEME, CTX_PER_DEV, PNIC_FEATURES)
