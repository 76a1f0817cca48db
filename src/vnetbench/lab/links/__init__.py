"""Links of testbeds: shaping, delay lines and other impairments."""
