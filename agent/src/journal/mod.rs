//! The original interface settings of a user's host: on disk before the first change, and restored when the agent ends.

mod entries;
mod folder;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use self::entries::{JournalFile, JournalState, OriginalSetting};
use self::folder::JournalFolder;
use crate::knobs;
use vnetbench_system::error::{RequestError, Result};
use vnetbench_system::signals::handle_signals;

/// The signals that ask a program to end, or that report a lost connection.
const TERMINATION_SIGNALS: [i32; 3] = [libc::SIGTERM, libc::SIGHUP, libc::SIGINT];
/// The number of passes over all settings: setting one knob may change another.
const RESTORE_PASSES: usize = 2;

/// The journal of this process, if it keeps one.
static JOURNAL: OnceLock<Mutex<Journal>> = OnceLock::new();

struct Journal {
    folder: JournalFolder,
    entries: JournalFile,
}

/// Opens a journal in this folder: from now on, settings are recorded before they change and restored when the process ends.
///
/// # Errors
///
/// Returns a message for the user.
pub fn start_recording_settings(folder_path: &Path) -> std::result::Result<(), String> {
    let folder = JournalFolder::open_validated(folder_path)?;
    let entries = JournalFile::create(&folder)?;
    handle_signals(&TERMINATION_SIGNALS, || restore_and_exit())
        .map_err(|error| format!("cannot wait for signals: {error}"))?;
    if JOURNAL
        .set(Mutex::new(Journal { folder, entries }))
        .is_err()
    {
        unreachable!("a process keeps one journal");
    }
    Ok(())
}

/// Records the original values of all knobs of the interface, unless the journal already has them.
///
/// All knobs are recorded at once, because setting one may change another. Settings are not restored while the returned
/// guard lives, so that the caller can set the knob safely.
pub fn record_interface_settings_before_change(
    interface: Option<&str>,
    knob: &str,
) -> Result<Option<impl Drop + use<>>> {
    let (Some(journal), Some(interface)) = (JOURNAL.get(), interface) else {
        return Ok(None);
    };
    let mut journal = lock(journal);
    let knob_error = |reason| RequestError::Knob {
        knob: knob.into(),
        interface: Some(interface.into()),
        reason,
    };
    if !journal.entries.contains_interface(interface) {
        let recorded = journal.entries.add(read_settings_for_restore(interface));
        recorded.map_err(|error| {
            knob_error(format!(
                "cannot be set, because its original value cannot be recorded: {error}"
            ))
        })?;
    }
    if !journal.entries.contains(interface, knob) {
        // Reports an unknown knob or interface with its usual error.
        knobs::read(knob, Some(interface))?;
        let reason =
            "cannot be set, because its original value cannot be read and could not be restored";
        return Err(knob_error(reason.into()));
    }
    Ok(Some(journal))
}

fn read_settings_for_restore(interface: &str) -> Vec<OriginalSetting> {
    let read_setting = |knob: &str| {
        let value = knobs::read_for_restore(knob, interface).ok()?;
        (!value.is_null()).then(|| OriginalSetting {
            interface: interface.into(),
            knob: knob.into(),
            value,
        })
    };
    knobs::INTERFACE_KNOBS_DEPENDENTS_FIRST
        .into_iter()
        .filter_map(read_setting)
        .collect()
}

/// Restores all settings, then ends the process.
pub fn restore_and_exit() -> ! {
    let Some(journal) = JOURNAL.get() else {
        std::process::exit(0);
    };
    // The lock is never released, so that no other thread changes a setting.
    let journal = lock(journal);
    let (_, mut failures) = restore_settings(journal.entries.original_settings());
    if failures.is_empty() {
        failures.extend(journal.folder.remove().err());
    }
    for failure in &failures {
        // Ignores write errors: the reader may be gone, and a panic would keep this process alive.
        let _ = writeln!(std::io::stderr(), "vnetbench-agent: {failure}");
    }
    std::process::exit(i32::from(!failures.is_empty()))
}

/// Restores the settings that a killed agent has changed, and removes its folder.
///
/// An agent that still runs gets SIGTERM and restores them itself.
pub fn restore_from_folder(folder_path: &Path) -> ExitCode {
    let (code, lines) = match try_restore_from_folder(folder_path) {
        Ok(lines) => (ExitCode::SUCCESS, lines),
        Err(lines) => (ExitCode::FAILURE, lines),
    };
    println!("{}", lines.join("\n"));
    code
}

fn try_restore_from_folder(folder_path: &Path) -> std::result::Result<Vec<String>, Vec<String>> {
    let as_lines = |error| vec![error];
    let folder = JournalFolder::open_validated(folder_path).map_err(as_lines)?;
    let mut lines = match JournalFile::end_agent_and_read(&folder).map_err(as_lines)? {
        JournalState::RestoredByAgent => {
            return Ok(vec![
                "the agent was still running and has restored all settings".into(),
            ]);
        }
        JournalState::EarlierBoot => {
            vec!["the machine has restarted, so no changed settings are left".into()]
        }
        JournalState::Nothing => vec!["the agent had changed no settings".into()],
        JournalState::Entries(entries) => match restore_settings(entries.original_settings()) {
            (lines, failures) if !failures.is_empty() => return Err([lines, failures].concat()),
            (lines, _) if lines.is_empty() => {
                vec!["all settings already have their original values".into()]
            }
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

/// Restores settings, newest first. Returns a line for each restored setting and a line for each failure.
fn restore_settings(settings: &[OriginalSetting]) -> (Vec<String>, Vec<String>) {
    let mut had_changed = vec![false; settings.len()];
    let mut errors: Vec<Option<String>> = vec![None; settings.len()];
    for _ in 0..RESTORE_PASSES {
        let outcomes = had_changed.iter_mut().zip(&mut errors);
        for (setting, (had_changed, error)) in settings.iter().zip(outcomes).rev() {
            let result = restore_if_changed(setting);
            *had_changed |= !matches!(result, Ok(false));
            *error = result.err().map(|error| error.to_string());
        }
    }
    let outcomes = had_changed.into_iter().zip(errors);
    let (mut restored, mut failures) = (Vec::new(), Vec::new());
    for (setting, (had_changed, error)) in settings.iter().zip(outcomes).rev() {
        let OriginalSetting {
            interface,
            knob,
            value,
        } = setting;
        let failure = match (error, knobs::read_for_restore(knob, interface)) {
            (_, Ok(current)) if current == *value => {
                if had_changed {
                    restored.push(format!("restored {knob} of {interface} to {value}"));
                }
                continue;
            }
            (Some(error), _) => error,
            (None, Ok(current)) => format!("{knob} of {interface} is {current}"),
            (None, Err(error)) => error.to_string(),
        };
        failures.push(format!("cannot restore a setting to {value}: {failure}"));
    }
    (restored, failures)
}

/// Restores one setting. Returns whether it had changed.
fn restore_if_changed(setting: &OriginalSetting) -> Result<bool> {
    let OriginalSetting {
        interface,
        knob,
        value,
    } = setting;
    // Some drivers restart the interface even if the value does not change.
    if knobs::read_for_restore(knob, interface)? == *value {
        return Ok(false);
    }
    knobs::set_and_read_back(knob, Some(interface), value)?;
    Ok(true)
}

fn lock(journal: &Mutex<Journal>) -> MutexGuard<'_, Journal> {
    journal.lock().unwrap_or_else(PoisonError::into_inner)
}
