//! Mutated bytes for tests of the parsers of foreign bytes. Only tests depend on this crate.
//!
//! A parser's test starts from valid bytes and changes a few of them, because most random bytes fail at the first check.
//! The names of these tests contain `mutated`, by which `make fuzz` finds them.
//!
//! | item | purpose |
//! |---|---|
//! | [`any_mutant_of`] | generates mutants of samples |
//! | [`any_mutations`] | generates changes, for tests that build their own mutants |
//! | [`check_mutants`] | runs a check for many mutants, and prints the smallest one that fails |
//!
//! `cargo test` runs a quick number of cases, and `PROPTEST_CASES` sets another one. Every run has a new seed.
//!
//! # What does not belong here
//!
//! Samples and properties: they stand beside the parser. This crate uses no other crate of the workspace.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::TestRunner;

/// Number of cases without `PROPTEST_CASES`.
const DEFAULT_CASE_COUNT: u32 = 10_000;
const CASES_VARIABLE: &str = "PROPTEST_CASES";

/// Values at the limits of numbers, JSON and Unicode.
const SPECIAL_BYTES: [&[u8]; 18] = [
    b"null",
    b"-1",
    b"1e308",
    b"1e999",
    b"0.5",
    b"[]",
    b"{}",
    b"true",
    b"18446744073709551615",
    b"99999999999999999999",
    b"\\ud800",
    b"\xff\xff\xff\xff",
    b"\0\0\0\0",
    b"\0\0\0\x01",
    b"\xfe",
    b"\x0c",
    b"\x81\0\x88\xa8",
    b"\x7f\xff",
];

/// A change of the bytes at one position.
#[derive(Debug, Clone)]
enum Mutation {
    /// Sets the byte.
    Set(u8),
    /// Flips this bit of the byte.
    FlipBit(u8),
    /// Removes this number of bytes.
    Remove(usize),
    /// Repeats this number of bytes.
    Duplicate(usize),
    /// Replaces this number of bytes.
    Replace(usize, &'static [u8]),
    /// Removes all bytes to the end.
    Truncate,
}

/// Generates mutations.
fn any_mutation() -> impl Strategy<Value = Mutation> {
    prop_oneof![
        any::<u8>().prop_map(Mutation::Set),
        (0..8_u8).prop_map(Mutation::FlipBit),
        (1..13_usize).prop_map(Mutation::Remove),
        (1..13_usize).prop_map(Mutation::Duplicate),
        (1..13_usize, select(&SPECIAL_BYTES[..]))
            .prop_map(|(length, bytes)| Mutation::Replace(length, bytes)),
        Just(Mutation::Truncate),
    ]
}

fn mutate(bytes: &mut Vec<u8>, position: &Index, mutation: &Mutation) {
    if bytes.is_empty() {
        bytes.push(0);
    }
    let at = position.index(bytes.len());
    let end_of = |length: usize| (at + length).min(bytes.len());
    match *mutation {
        Mutation::Set(byte) => bytes[at] = byte,
        Mutation::FlipBit(bit) => bytes[at] ^= 1 << bit,
        Mutation::Remove(length) => drop(bytes.drain(at..end_of(length))),
        Mutation::Duplicate(length) => {
            let copy = bytes[at..end_of(length)].to_vec();
            bytes.splice(at..at, copy);
        }
        Mutation::Replace(length, special) => {
            drop(bytes.splice(at..end_of(length), special.iter().copied()));
        }
        Mutation::Truncate => bytes.truncate(at),
    }
}

/// Several changes of bytes, one after the other.
#[derive(Debug, Clone)]
pub struct Mutations(Vec<(Index, Mutation)>);

impl Mutations {
    /// Changes the bytes.
    pub fn apply(&self, bytes: &mut Vec<u8>) {
        for (position, mutation) in &self.0 {
            mutate(bytes, position, mutation);
        }
    }
}

/// Generates zero to three changes: a fourth of the mutants stay valid.
pub fn any_mutations() -> impl Strategy<Value = Mutations> {
    vec((any::<Index>(), any_mutation()), 0..4).prop_map(Mutations)
}

/// Generates mutants of these samples.
pub fn any_mutant_of(samples: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    (select(samples), any_mutations()).prop_map(|(mut bytes, mutations)| {
        mutations.apply(&mut bytes);
        bytes
    })
}

/// Checks mutants of a strategy; fails with the smallest one for which `check` panics.
pub fn check_mutants<S: Strategy>(mutants: &S, check: impl Fn(S::Value)) {
    let mut config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    if std::env::var_os(CASES_VARIABLE).is_none() {
        config.cases = DEFAULT_CASE_COUNT;
    }
    let result = TestRunner::new(config).run(mutants, |mutant| {
        check(mutant);
        Ok(())
    });
    if let Err(failure) = result {
        panic!("{failure}");
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::HashSet;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    const SAMPLE: &[u8] = b"a sample of a hundred bytes or fewer";

    #[test]
    fn mutants_differ_and_some_are_valid() {
        let mutants = RefCell::new(HashSet::new());
        check_mutants(&any_mutant_of(vec![SAMPLE.to_vec()]), |mutant| {
            mutants.borrow_mut().insert(mutant);
        });
        let mutants = mutants.into_inner();
        assert!(mutants.contains(SAMPLE));
        assert!(mutants.len() > 100, "{}", mutants.len());
    }

    #[test]
    fn a_check_that_panics_fails() {
        let failed = catch_unwind(AssertUnwindSafe(|| {
            check_mutants(&any_mutant_of(vec![SAMPLE.to_vec()]), |mutant| {
                assert!(mutant.starts_with(b"a"), "a mutant");
            });
        }));
        assert!(failed.is_err());
    }
}
