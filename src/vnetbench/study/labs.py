"""Labs of a study, and the backends that implement their testbeds."""

from __future__ import annotations

NETNS, QEMU, HOSTS, LIBVIRT, VSPHERE = "netns", "qemu", "hosts", "libvirt", "vsphere"
LABS = (NETNS, QEMU, HOSTS, LIBVIRT, VSPHERE)

EXISTING_VM_LABS = (LIBVIRT, VSPHERE)
"""Labs that also change the hardware of existing VMs, through their hypervisor."""
EXISTING_MACHINE_LABS = (HOSTS, *EXISTING_VM_LABS)
"""Labs of machines that exist before the study. They keep the settings that the study does not name."""

IMPORTED_LAB = "imported"
"""Stands in place of a lab: the trials come from logs of other tools. All factors and labels are possible,
and none has a default."""

IPERF3_BACKEND = "iperf3"
"""Backend of the lab `hosts` if one endpoint only has an iperf3 server. All other backends are labs."""
