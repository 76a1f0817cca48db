"""The lab `libvirt`: existing VMs whose hardware the bench changes and restores."""
