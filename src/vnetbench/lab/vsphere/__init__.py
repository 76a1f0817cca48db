"""Sessions with vCenter or ESXi, and the lab `vsphere`, which changes existing VMs there."""
