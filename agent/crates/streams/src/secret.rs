//! The secret that identifies the streams of one trial.

/// A random value that the bench draws for each trial; only the trial's endpoints know it.
pub type Secret = [u8; 16];
