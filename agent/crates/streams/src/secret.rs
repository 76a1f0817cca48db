//! What keeps the streams of one trial apart from those of all others.

/// Drawn by the bench for each trial, and known to both of its endpoints only.
pub type Secret = [u8; 16];
