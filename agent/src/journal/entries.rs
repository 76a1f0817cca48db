//! The journal file: one JSON object per line. The first line has the kernel's boot id, and each other line the original
//! value of a knob.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, fcntl_lock, fstat};
use rustix::io::Errno;
use rustix::process::{Flock, FlockType, Signal, fcntl_getlk, kill_process};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::folder::JournalFolder;

const BOOT_ID_FILE: &str = "/proc/sys/kernel/random/boot_id";
/// How long a running agent may take to restore all settings. Each setting may take the link down for seconds.
const AGENT_RESTORE_TIMEOUT: Duration = Duration::from_secs(45);
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// The value of a knob before the agent changed any setting of its interface.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OriginalSetting {
    /// The name of the interface.
    pub interface: String,
    /// The name of the knob.
    pub knob: String,
    /// The knob's original value.
    pub value: Value,
}

#[derive(Serialize, Deserialize)]
struct JournalHeader {
    boot: String,
}

/// A locked journal file and its settings, oldest first.
pub struct JournalFile {
    file: File,
    settings: Vec<OriginalSetting>,
}

/// A journal that is to be restored, or why there is nothing to restore.
pub enum JournalState {
    Entries(JournalFile),
    /// No knob was changed, or the agent never started.
    Nothing,
    /// The machine has restarted since, which reset all settings.
    EarlierBoot,
    /// The running agent has restored the settings and removed the folder.
    RestoredByAgent,
}

impl JournalFile {
    /// Creates an empty journal. Fails if another agent has left one.
    pub fn create(folder: &JournalFolder) -> Result<Self, String> {
        let file = folder.create_journal()?;
        fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|error| format!("cannot lock the journal in {folder}: {error}"))?;
        let mut entries = Self {
            file,
            settings: Vec::new(),
        };
        let head = JournalHeader {
            boot: read_boot_id(),
        };
        entries
            .append_lines(&[head])
            .and_then(|()| folder.sync())
            .map_err(|error| format!("cannot write the journal in {folder}: {error}"))?;
        Ok(entries)
    }

    /// Locks and reads the journal of a killed agent. First ends an agent that still runs (SIGTERM), and waits for it.
    pub fn end_agent_and_read(folder: &JournalFolder) -> Result<JournalState, String> {
        let Some(mut file) = folder.open_journal()? else {
            return Ok(JournalState::Nothing);
        };
        end_agent_and_lock(&file).map_err(|error| format!("{folder}: {error}"))?;
        let read_error = |error| format!("cannot read the journal in {folder}: {error}");
        if fstat(&file)
            .map_err(|error| read_error(error.into()))?
            .st_nlink
            == 0
        {
            return Ok(JournalState::RestoredByAgent);
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(read_error)?;
        let (head, settings) = parse_journal(&text).map_err(|line| {
            format!("line {line} of the journal in {folder} is invalid; restore the settings that it lists by hand, then remove the folder")
        })?;
        Ok(match head {
            Some(head) if head.boot != read_boot_id() => JournalState::EarlierBoot,
            _ if settings.is_empty() => JournalState::Nothing,
            _ => JournalState::Entries(Self { file, settings }),
        })
    }

    /// Returns all settings, oldest first.
    pub fn original_settings(&self) -> &[OriginalSetting] {
        &self.settings
    }

    /// Returns whether the original value of a knob is recorded.
    pub fn contains(&self, interface: &str, knob: &str) -> bool {
        let is_recorded =
            |setting: &OriginalSetting| setting.interface == interface && setting.knob == knob;
        self.settings.iter().any(is_recorded)
    }

    /// Returns whether the original settings of an interface are recorded.
    pub fn contains_interface(&self, interface: &str) -> bool {
        self.settings
            .iter()
            .any(|setting| setting.interface == interface)
    }

    /// Adds settings. They are on disk when this returns.
    pub fn add(&mut self, settings: Vec<OriginalSetting>) -> std::io::Result<()> {
        self.append_lines(&settings)?;
        self.settings.extend(settings);
        Ok(())
    }

    fn append_lines<T: Serialize>(&mut self, lines: &[T]) -> std::io::Result<()> {
        let end = self.file.seek(SeekFrom::End(0))?;
        let mut text = String::new();
        for line in lines {
            text += &serde_json::to_string(line)?;
            text.push('\n');
        }
        let written = self
            .file
            .write_all(text.as_bytes())
            .and_then(|()| self.file.sync_data());
        // A partial line, for example on a full disk, would make the next one unreadable.
        written.inspect_err(|_| {
            let _ = self.file.set_len(end);
        })
    }
}

/// Parses a journal. The error is the number of the first invalid line.
///
/// Ignores a last line without a line feed: the agent was killed while writing it, before it changed the setting.
fn parse_journal(text: &str) -> Result<(Option<JournalHeader>, Vec<OriginalSetting>), usize> {
    let mut lines = text
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n'))
        .enumerate();
    let Some((_, head)) = lines.next() else {
        return Ok((None, Vec::new()));
    };
    let head = serde_json::from_str(head).map_err(|_| 1usize)?;
    let settings = lines.map(|(at, line)| serde_json::from_str(line).map_err(|_| at + 1));
    Ok((Some(head), settings.collect::<Result<_, _>>()?))
}

fn end_agent_and_lock(file: &File) -> Result<(), String> {
    let until = Instant::now() + AGENT_RESTORE_TIMEOUT;
    let mut signalled_agent = None;
    loop {
        match fcntl_lock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(Errno::AGAIN | Errno::ACCESS) => {}
            Err(error) => return Err(format!("cannot lock the journal: {error}")),
        }
        let whole: Flock = FlockType::WriteLock.into();
        let holder = fcntl_getlk(file, &whole)
            .ok()
            .flatten()
            .and_then(|lock| lock.pid)
            // The kernel reports -1 for a holder on another machine, and kill(-1) would signal all processes.
            .filter(|holder| holder.as_raw_pid() > 0);
        if signalled_agent.is_none()
            && let Some(agent) = holder
        {
            kill_process(agent, Signal::TERM).map_err(|error| {
                format!("the agent that uses it (process {agent}) cannot be ended: {error}")
            })?;
            signalled_agent = Some(agent);
        }
        if Instant::now() > until {
            return Err("the agent that uses it does not end".into());
        }
        std::thread::sleep(LOCK_RETRY_INTERVAL);
    }
}

/// Returns the kernel's boot id; empty if it cannot be read.
fn read_boot_id() -> String {
    let text = std::fs::read_to_string(BOOT_ID_FILE).unwrap_or_default();
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const HEAD: &str = "{\"boot\":\"b\"}\n";
    const MTU: &str = "{\"interface\":\"eth0\",\"knob\":\"mtu\",\"value\":1500}\n";

    fn parsed_settings(text: &str) -> Result<Vec<OriginalSetting>, usize> {
        parse_journal(text).map(|(_, settings)| settings)
    }

    #[test]
    fn a_partial_last_line_is_ignored() {
        let mtu = OriginalSetting {
            interface: "eth0".into(),
            knob: "mtu".into(),
            value: json!(1500),
        };
        let text = format!("{HEAD}{MTU}");
        assert_eq!(parsed_settings(&text), Ok(vec![mtu.clone()]));
        assert_eq!(
            parsed_settings(&format!("{text}{}", &MTU[..20])),
            Ok(vec![mtu])
        );
        assert_eq!(parsed_settings(""), Ok(vec![]));
        assert_eq!(parsed_settings(&HEAD[..5]), Ok(vec![]));
    }

    #[test]
    fn an_invalid_line_is_reported_by_its_number() {
        assert_eq!(parsed_settings("nonsense\n"), Err(1));
        assert_eq!(parsed_settings(&format!("{HEAD}{MTU}{{}}\n{MTU}")), Err(3));
    }

    #[test]
    fn a_setting_that_does_not_fit_on_disk_is_not_recorded() {
        let full = File::options().read(true).write(true).open("/dev/full");
        let mut entries = JournalFile {
            file: full.expect("every Linux system has /dev/full"),
            settings: Vec::new(),
        };
        let (interface, knob) = ("eth0".to_owned(), "mtu".to_owned());
        let value = json!(1500);
        let setting = OriginalSetting {
            interface,
            knob,
            value,
        };
        let added = entries.add(vec![setting]);
        assert_eq!(
            added.map_err(|error| error.kind()),
            Err(std::io::ErrorKind::StorageFull)
        );
        assert!(!entries.contains("eth0", "mtu"));
    }

    #[test]
    fn numbers_survive_a_round_trip_through_json() {
        for seconds in [5e-5, 0.000_064, 1.0 / 3.0, 2.3e-5] {
            let value = json!(seconds);
            let read: Value = serde_json::from_str(&value.to_string()).expect("JSON");
            assert_eq!(read, value);
        }
    }
}
