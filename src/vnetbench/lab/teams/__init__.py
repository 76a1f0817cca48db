"""Teams of real links: creates them, sends marked frames, and reads which member carried each."""
