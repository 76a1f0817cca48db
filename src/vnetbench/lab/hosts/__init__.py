"""The lab `hosts`: testbeds of existing machines."""
