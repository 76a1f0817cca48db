//! The knobs of interfaces of a user's host as they were found: on disk before the first is changed, and put back when the
//! agent ends, however it ends.

mod entries;
mod folder;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use self::entries::{JournalFile, JournalState, OriginalSetting};
use self::folder::JournalFolder;
use crate::knobs;
use vnetbench_system::error::{Error, Result};
use vnetbench_system::signals::on_signals;

/// What ends a program that is told to end, or whose connection is lost.
const TERMINATION_SIGNALS: [i32; 3] = [libc::SIGTERM, libc::SIGHUP, libc::SIGINT];
/// What one knob is set to may change another: so often all are put back that do not stand as they were found.
const RESTORE_ROUNDS: usize = 2;

/// Of this process, where it keeps one.
static JOURNAL: OnceLock<Mutex<Journal>> = OnceLock::new();

struct Journal {
    folder: JournalFolder,
    entries: JournalFile,
}

/// From here on every knob of an interface is kept in this folder before it is changed, and put back at the end of this
/// process. To be called before any other thread is started. What goes wrong is a sentence.
pub fn open_journal(path: &Path) -> std::result::Result<(), String> {
    let folder = JournalFolder::open(path)?;
    let entries = JournalFile::create(&folder)?;
    on_signals(&TERMINATION_SIGNALS, || restore_and_exit())
        .map_err(|error| format!("cannot wait for signals: {error}"))?;
    if JOURNAL
        .set(Mutex::new(Journal { folder, entries }))
        .is_err()
    {
        unreachable!("a process keeps one journal");
    }
    Ok(())
}

/// Keeps how all knobs of the interface are found, where a journal is kept and does not have them yet: what one is set to
/// may change another, and how that is found later is no longer how it was. Nothing is put back while what this returns
/// lives: the knob may be set meanwhile.
pub fn record_original_settings(
    interface: Option<&str>,
    knob: &str,
) -> Result<Option<impl Drop + use<>>> {
    let (Some(journal), Some(interface)) = (JOURNAL.get(), interface) else {
        return Ok(None);
    };
    let mut journal = lock(journal);
    let refused = |reason| Error::Knob {
        knob: knob.into(),
        interface: Some(interface.into()),
        reason,
    };
    if !journal.entries.contains_interface(interface) {
        let kept = journal.entries.add(read_settings(interface));
        kept.map_err(|error| {
            refused(format!(
                "cannot be set: how it was found cannot be kept: {error}"
            ))
        })?;
    }
    if !journal.entries.contains(interface, knob) {
        // What there is not at all is said as ever.
        knobs::read(knob, Some(interface))?;
        let reason = "cannot be set: it had no value, or no single one, that could be put back";
        return Err(refused(reason.into()));
    }
    Ok(Some(journal))
}

fn read_settings(interface: &str) -> Vec<OriginalSetting> {
    let found = |knob: &str| {
        let value = knobs::read_full(knob, interface).ok()?;
        (!value.is_null()).then(|| OriginalSetting {
            interface: interface.into(),
            knob: knob.into(),
            value,
        })
    };
    knobs::INTERFACE_KNOBS
        .into_iter()
        .filter_map(found)
        .collect()
}

/// Ends the process, once all knobs stand as they were found.
pub fn restore_and_exit() -> ! {
    let Some(journal) = JOURNAL.get() else {
        std::process::exit(0);
    };
    // Never let go: nothing is set any more.
    let journal = lock(journal);
    let (_, mut failures) = restore_settings(journal.entries.original_settings());
    if failures.is_empty() {
        failures.extend(journal.folder.remove().err());
    }
    for failure in &failures {
        // Nobody may listen any more, and a panic would let this process live on.
        let _ = writeln!(std::io::stderr(), "vnetbench-agent: {failure}");
    }
    std::process::exit(i32::from(!failures.is_empty()))
}

/// Puts back what an agent that was killed has left, and removes its folder. One that still serves there is told to end,
/// and does so itself.
pub fn restore(path: &Path) -> ExitCode {
    let (code, lines) = match try_restore(path) {
        Ok(lines) => (ExitCode::SUCCESS, lines),
        Err(lines) => (ExitCode::FAILURE, lines),
    };
    println!("{}", lines.join("\n"));
    code
}

fn try_restore(path: &Path) -> std::result::Result<Vec<String>, Vec<String>> {
    let alone = |error| vec![error];
    let folder = JournalFolder::open(path).map_err(alone)?;
    let mut lines = match JournalFile::lock_and_read(&folder).map_err(alone)? {
        JournalState::RestoredByAgent => {
            return Ok(vec![
                "its agent was still at work, and has put all back".into(),
            ]);
        }
        JournalState::EarlierBoot => {
            vec!["the machine was started anew since: nothing is left of what was set".into()]
        }
        JournalState::Nothing => vec!["nothing was changed".into()],
        JournalState::Entries(entries) => match restore_settings(entries.original_settings()) {
            (lines, failures) if !failures.is_empty() => return Err([lines, failures].concat()),
            (lines, _) if lines.is_empty() => vec!["all stands as it was found".into()],
            (lines, _) => lines,
        },
    };
    match folder.remove() {
        Ok(()) => Ok(lines),
        Err(error) => {
            lines.push(error);
            Err(lines)
        }
    }
}

/// Newest first. What had to be put back and stands as it was found, and what does not stand so, a line each.
fn restore_settings(found: &[OriginalSetting]) -> (Vec<String>, Vec<String>) {
    let mut moved = vec![false; found.len()];
    let mut refusals: Vec<Option<String>> = vec![None; found.len()];
    for _ in 0..RESTORE_ROUNDS {
        let outcomes = moved.iter_mut().zip(&mut refusals);
        for (each, (moved, refusal)) in found.iter().zip(outcomes).rev() {
            let done = restore_setting(each);
            *moved |= !matches!(done, Ok(false));
            *refusal = done.err().map(|error| error.to_string());
        }
    }
    let (mut lines, mut failures) = (Vec::new(), Vec::new());
    for (each, (moved, refusal)) in found.iter().zip(moved.into_iter().zip(refusals)).rev() {
        let OriginalSetting {
            interface,
            knob,
            value,
        } = each;
        match (refusal, knobs::read_full(knob, interface)) {
            (_, Ok(now)) if now == *value => {
                if moved {
                    lines.push(format!("{knob} of {interface} is {value} again"));
                }
            }
            (Some(refusal), _) => failures.push(format!("not put back to {value}: {refusal}")),
            (None, Ok(now)) => failures.push(format!(
                "not put back to {value}: {knob} of {interface} is {now}"
            )),
            (None, Err(error)) => failures.push(format!("not put back to {value}: {error}")),
        }
    }
    (lines, failures)
}

/// Whether it had to be.
fn restore_setting(found: &OriginalSetting) -> Result<bool> {
    let OriginalSetting {
        interface,
        knob,
        value,
    } = found;
    // Some drivers start an interface anew whatever it is set to.
    if knobs::read_full(knob, interface)? == *value {
        return Ok(false);
    }
    knobs::set_and_read_back(knob, Some(interface), value)?;
    Ok(true)
}

fn lock(journal: &Mutex<Journal>) -> MutexGuard<'_, Journal> {
    journal.lock().unwrap_or_else(PoisonError::into_inner)
}
