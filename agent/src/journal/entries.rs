//! The file of a journal: JSON, one object a line. The first says under which start of the kernel it was written, each
//! further one how a knob was found.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, fcntl_lock, fstat};
use rustix::io::Errno;
use rustix::process::{Flock, FlockType, Signal, fcntl_getlk, kill_process};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::folder::JournalFolder;

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// How long an agent that is told to end may take to put all back: each knob may cost an adapter its link for seconds.
const LOCK_TIMEOUT: Duration = Duration::from_secs(45);
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// A knob as it was before this agent changed any of its interface.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OriginalSetting {
    pub interface: String,
    pub knob: String,
    pub value: Value,
}

#[derive(Serialize, Deserialize)]
struct JournalHeader {
    boot: String,
}

/// Oldest first; the file is locked by whoever has it.
pub struct JournalFile {
    file: File,
    settings: Vec<OriginalSetting>,
}

/// What was in a folder that is to be put back.
pub enum JournalState {
    Entries(JournalFile),
    /// No knob was changed, or the agent was never started.
    Nothing,
    EarlierBoot,
    RestoredByAgent,
}

impl JournalFile {
    /// An empty journal; one that is there already was left by another agent.
    pub fn create(folder: &JournalFolder) -> Result<Self, String> {
        let file = folder.create_journal()?;
        fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|error| format!("cannot lock the journal in {folder}: {error}"))?;
        let mut entries = Self {
            file,
            settings: Vec::new(),
        };
        let head = JournalHeader { boot: boot_id() };
        entries
            .write(&[head])
            .and_then(|()| folder.sync())
            .map_err(|error| format!("cannot write the journal in {folder}: {error}"))?;
        Ok(entries)
    }

    /// Those of an agent that was killed. One that still serves is told to end.
    pub fn lock_and_read(folder: &JournalFolder) -> Result<JournalState, String> {
        let Some(mut file) = folder.open_journal()? else {
            return Ok(JournalState::Nothing);
        };
        lock_after_agent_exit(&file).map_err(|error| format!("{folder}: {error}"))?;
        let unread = |error| format!("cannot read the journal in {folder}: {error}");
        if fstat(&file).map_err(|error| unread(error.into()))?.st_nlink == 0 {
            return Ok(JournalState::RestoredByAgent);
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(unread)?;
        let (head, found) = parse_journal(&text).map_err(|line| {
            format!("line {line} of the journal in {folder} is not what an agent writes; put back by hand what it says, and remove the folder")
        })?;
        Ok(match head {
            Some(head) if head.boot != boot_id() => JournalState::EarlierBoot,
            _ if found.is_empty() => JournalState::Nothing,
            _ => JournalState::Entries(Self {
                file,
                settings: found,
            }),
        })
    }

    pub fn original_settings(&self) -> &[OriginalSetting] {
        &self.settings
    }

    pub fn contains(&self, interface: &str, knob: &str) -> bool {
        let is_it = |found: &OriginalSetting| found.interface == interface && found.knob == knob;
        self.settings.iter().any(is_it)
    }

    pub fn contains_interface(&self, interface: &str) -> bool {
        self.settings
            .iter()
            .any(|found| found.interface == interface)
    }

    /// On disk when this returns.
    pub fn add(&mut self, found: Vec<OriginalSetting>) -> std::io::Result<()> {
        self.write(&found)?;
        self.settings.extend(found);
        Ok(())
    }

    fn write<T: Serialize>(&mut self, lines: &[T]) -> std::io::Result<()> {
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
        // Half a line (a full disk) would make the next one unreadable.
        written.inspect_err(|_| {
            let _ = self.file.set_len(end);
        })
    }
}

/// The number of the line that is no line of a journal is the error. A last line without its end was never followed by a
/// change: its agent was killed as it wrote it.
fn parse_journal(text: &str) -> Result<(Option<JournalHeader>, Vec<OriginalSetting>), usize> {
    let mut lines = text
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n'))
        .enumerate();
    let Some((_, head)) = lines.next() else {
        return Ok((None, Vec::new()));
    };
    let head = serde_json::from_str(head).map_err(|_| 1usize)?;
    let found = lines.map(|(at, line)| serde_json::from_str(line).map_err(|_| at + 1));
    Ok((Some(head), found.collect::<Result<_, _>>()?))
}

fn lock_after_agent_exit(file: &File) -> Result<(), String> {
    let until = Instant::now() + LOCK_TIMEOUT;
    let mut json = None;
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
            // The kernel has -1 for a holder that is no process of this machine; to kill would take that for all of them.
            .filter(|holder| holder.as_raw_pid() > 0);
        if json.is_none()
            && let Some(agent) = holder
        {
            kill_process(agent, Signal::TERM)
                .map_err(|error| format!("its agent (process {agent}) cannot be ended: {error}"))?;
            json = Some(agent);
        }
        if Instant::now() > until {
            return Err("an agent still works with it, and does not end".into());
        }
        std::thread::sleep(LOCK_RETRY_INTERVAL);
    }
}

/// Empty where the kernel does not say.
fn boot_id() -> String {
    let text = std::fs::read_to_string(BOOT_ID).unwrap_or_default();
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const HEAD: &str = "{\"boot\":\"b\"}\n";
    const MTU: &str = "{\"interface\":\"eth0\",\"knob\":\"mtu\",\"value\":1500}\n";

    fn found(text: &str) -> Result<Vec<OriginalSetting>, usize> {
        parse_journal(text).map(|(_, found)| found)
    }

    #[test]
    fn what_was_written_is_read_and_half_a_line_at_the_end_is_not() {
        let mtu = OriginalSetting {
            interface: "eth0".into(),
            knob: "mtu".into(),
            value: json!(1500),
        };
        let text = format!("{HEAD}{MTU}");
        assert_eq!(found(&text), Ok(vec![mtu.clone()]));
        assert_eq!(found(&format!("{text}{}", &MTU[..20])), Ok(vec![mtu]));
        assert_eq!(found(""), Ok(vec![]));
        assert_eq!(found(&HEAD[..5]), Ok(vec![]));
    }

    #[test]
    fn what_no_agent_writes_is_said_by_its_line() {
        assert_eq!(found("nonsense\n"), Err(1));
        assert_eq!(found(&format!("{HEAD}{MTU}{{}}\n{MTU}")), Err(3));
    }

    #[test]
    fn what_a_full_disk_did_not_take_is_not_kept() {
        let full = File::options().read(true).write(true).open("/dev/full");
        let mut entries = JournalFile {
            file: full.expect("every Linux has it"),
            settings: Vec::new(),
        };
        let (interface, knob) = ("eth0".to_owned(), "mtu".to_owned());
        let value = json!(1500);
        let found = OriginalSetting {
            interface,
            knob,
            value,
        };
        let kept = entries.add(vec![found]);
        assert_eq!(
            kept.map_err(|error| error.kind()),
            Err(std::io::ErrorKind::StorageFull)
        );
        assert!(!entries.contains("eth0", "mtu"));
    }

    #[test]
    fn a_number_is_read_as_it_was_written() {
        for seconds in [5e-5, 0.000_064, 1.0 / 3.0, 2.3e-5] {
            let value = json!(seconds);
            let read: Value = serde_json::from_str(&value.to_string()).expect("JSON");
            assert_eq!(read, value);
        }
    }
}
