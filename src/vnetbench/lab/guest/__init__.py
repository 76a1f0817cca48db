"""The lab `qemu`: testbeds of guests that QEMU runs."""
