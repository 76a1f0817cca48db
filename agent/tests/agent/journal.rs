//! Settings that an agent changes on a host are restored, however the agent ends.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::agent_process::{Agent, run};

const VETHS: &str = "ip link add vnb0 numtxqueues 2 numrxqueues 2 type veth peer name vnb1 &&";

/// A simulated user's host with two interfaces, and the folder that a bench creates there.
struct Host {
    /// Keeps the host's network namespace alive, and reads its settings.
    holder: Agent,
    folder: PathBuf,
}

impl Host {
    fn new(test: &str) -> Self {
        let name = format!("vnetbench-{test}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).expect("a folder of our own");
        std::fs::set_permissions(&folder, Permissions::from_mode(0o700))
            .expect("the test owns the file");
        let holder = Agent::start_in_new_network(VETHS);
        let mut host = Self { holder, folder };
        host.values();
        host
    }

    fn folder(&self) -> &str {
        self.folder.to_str().expect("text")
    }

    fn agent(&self) -> Agent {
        let mut agent = self
            .holder
            .start_in_network(&["stdio", "--journal", self.folder()]);
        agent.expect_result("agent.hello", json!({}));
        agent
    }

    fn restore(&self) -> (Option<i32>, String, String) {
        self.holder
            .run_binary_in_network(&["restore", self.folder()])
    }

    fn values(&mut self) -> Value {
        let knobs = json!({"interface": "vnb0", "knobs": ["mtu", "tso", "tx_checksum", "queues"]});
        self.holder.expect_result("knob.get", knobs)["values"].take()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn set(agent: &mut Agent, knob: &str, value: Value) {
    let answer = agent.expect_result(
        "knob.set",
        json!({"interface": "vnb0", "knob": knob, "value": value}),
    );
    assert_eq!(answer["effective"], value, "{knob}");
}

/// Sets several knobs: one of them twice, and some that change others.
fn set_all(agent: &mut Agent) {
    set(agent, "mtu", json!(9000));
    set(agent, "tso", json!(false));
    set(agent, "tx_checksum", json!(false));
    set(agent, "queues", json!(1));
    set(agent, "mtu", json!(4000));
}

#[test]
fn settings_are_restored_when_the_input_closes() {
    let mut host = Host::new("input");
    let before = host.values();
    let mut agent = host.agent();
    set_all(&mut agent);
    assert_ne!(host.values(), before);
    assert_eq!(agent.finish(), (Some(0), String::new()));
    assert_eq!(host.values(), before);
    assert!(!host.folder.exists());
}

#[test]
fn knobs_changed_by_another_knob_are_restored() {
    let mut host = Host::new("along");
    let before = host.values();
    assert_eq!(before["tso"], true);
    let mut agent = host.agent();
    set(&mut agent, "tx_checksum", json!(false));
    assert_eq!(host.values()["tso"], false);
    set(&mut agent, "tso", json!(false));
    assert_eq!(agent.finish(), (Some(0), String::new()));
    assert_eq!(host.values(), before);
}

#[test]
fn settings_are_restored_on_a_signal() {
    for signal in [libc::SIGTERM, libc::SIGHUP, libc::SIGINT] {
        let mut host = Host::new(&format!("signal{signal}"));
        let before = host.values();
        let mut agent = host.agent();
        set_all(&mut agent);
        agent.signal(signal);
        assert_eq!(agent.wait_for_exit(), (Some(0), String::new()));
        assert_eq!(host.values(), before);
        assert!(!host.folder.exists());
    }
}

#[test]
fn settings_are_restored_when_the_output_closes() {
    let mut host = Host::new("output");
    let before = host.values();
    let mut agent = host.agent();
    set_all(&mut agent);
    assert_eq!(
        agent.wait_for_exit_with_closed_output(),
        (Some(0), String::new())
    );
    assert_eq!(host.values(), before);
    assert!(!host.folder.exists());
}

#[test]
fn settings_of_a_killed_agent_are_restored() {
    let mut host = Host::new("killed");
    let before = host.values();
    let mut agent = host.agent();
    set_all(&mut agent);
    agent.signal(libc::SIGKILL);
    agent.wait_for_exit();
    assert_ne!(host.values(), before);
    let (code, output, errors) = host.restore();
    assert_eq!((code, errors.as_str()), (Some(0), ""), "{output}");
    assert!(
        output.contains("restored mtu of vnb0 to 1500\n"),
        "{output}"
    );
    let positions =
        ["queues of", "mtu of", "tx_checksum of", "tso of"].map(|words| output.find(words));
    assert!(
        positions.is_sorted() && positions[0].is_some(),
        "knobs that change others come first: {output}"
    );
    assert!(
        !output.contains("gro of"),
        "gro was never changed: {output}"
    );
    assert_eq!(host.values(), before);
    assert!(!host.folder.exists());
}

#[test]
fn a_folder_without_changes_is_removed() {
    let host = Host::new("nothing");
    host.agent().signal(libc::SIGKILL);
    let (code, output, _) = host.restore();
    assert_eq!(
        (code, output.as_str()),
        (Some(0), "the agent had changed no settings\n")
    );
    assert!(!host.folder.exists());
}

#[test]
fn restore_ends_a_running_agent() {
    let mut host = Host::new("serving");
    let before = host.values();
    let mut agent = host.agent();
    set_all(&mut agent);
    let (code, output, _) = host.restore();
    assert_eq!(code, Some(0), "{output}");
    assert_eq!(agent.wait_for_exit(), (Some(0), String::new()));
    assert_eq!(host.values(), before);
    assert!(!host.folder.exists());
}

#[test]
fn restore_reports_failures_and_restores_the_rest() {
    let mut host = Host::new("vanished");
    let mut agent = host.agent();
    let on_other = json!({"interface": "vnb1", "knob": "mtu", "value": 3000});
    set(&mut agent, "mtu", json!(9000));
    agent.expect_result("knob.set", on_other);
    host.holder.run_in_network("ip link set vnb1 name vnb7");
    agent.signal(libc::SIGKILL);
    agent.wait_for_exit();
    let (code, output, _) = host.restore();
    assert_eq!(code, Some(1), "{output}");
    let failure = "cannot restore a setting to 1500: knob mtu of vnb1: cannot be read: the interface does not exist";
    assert!(output.contains(failure), "{output}");
    assert_eq!(host.values()["mtu"], 1500);
    assert!(host.folder.exists());
    host.holder.run_in_network("ip link set vnb7 name vnb1");
    assert_eq!(host.restore().0, Some(0));
    assert!(!host.folder.exists());
}

#[test]
fn an_agent_that_cannot_restore_keeps_its_journal() {
    let mut host = Host::new("failing");
    let mut agent = host.agent();
    set(&mut agent, "mtu", json!(9000));
    host.holder.run_in_network("ip link set vnb0 name vnb7");
    let (code, errors) = agent.finish();
    assert_eq!(code, Some(1));
    let failure = "vnetbench-agent: cannot restore a setting to 1500: knob mtu of vnb0: ";
    assert!(errors.contains(failure), "{errors}");
    host.holder.run_in_network("ip link set vnb7 name vnb0");
    assert_eq!(host.restore().0, Some(0));
    assert_eq!(host.values()["mtu"], 1500);
}

#[test]
fn an_agent_without_readers_ends_after_a_failed_restore() {
    let host = Host::new("unheard");
    let mut agent = host.agent();
    set(&mut agent, "mtu", json!(9000));
    host.holder.run_in_network("ip link del vnb0");
    agent.close_errors();
    agent.signal(libc::SIGTERM);
    assert_eq!(agent.wait_for_exit().0, Some(1));
    assert!(host.folder.exists());
}

#[test]
fn nothing_is_restored_after_a_restart_of_the_machine() {
    let mut host = Host::new("boot");
    let mut agent = host.agent();
    set(&mut agent, "mtu", json!(9000));
    agent.signal(libc::SIGKILL);
    agent.wait_for_exit();
    let journal = host.folder.join("journal");
    let text = std::fs::read_to_string(&journal).expect("the journal exists");
    let (_, rest) = text.split_once('\n').expect("two lines");
    std::fs::write(&journal, format!("{{\"boot\":\"another\"}}\n{rest}"))
        .expect("the test owns the file");
    let (code, output, _) = host.restore();
    assert!(output.contains("has restarted"), "{output}");
    assert_eq!((code, &host.values()["mtu"]), (Some(0), &json!(9000)));
    assert!(!host.folder.exists());
}

#[test]
fn a_knob_that_cannot_be_restored_is_not_set() {
    let host = Host::new("null");
    let mut agent = host.agent();
    // The /sys of another network namespace lacks this interface, so the value cannot be read.
    let rps = json!({"interface": "vnb0", "knob": "rps_cpus", "value": "0"});
    let error = agent
        .request("knob.set", rps)
        .expect_err("the value cannot be read");
    assert_eq!(error["code"], -32003);
    let message = error["message"].as_str().unwrap_or_default();
    assert!(
        message.contains("its original value cannot be read"),
        "{message}"
    );
}

#[test]
fn invalid_and_used_journal_folders_are_rejected() {
    let host = Host::new("refused");
    let other = std::env::temp_dir();
    for word in ["stdio", "restore"] {
        let option: &[&str] = if word == "stdio" { &["--journal"] } else { &[] };
        let run_with_folder = |folder: &str| run(&[&[word], option, &[folder]].concat());
        let (code, output, errors) = run_with_folder(other.to_str().expect("text"));
        assert_eq!(code, Some(1));
        assert!((output + &errors).contains("must begin with vnetbench-"));
    }
    host.agent().signal(libc::SIGKILL);
    let second = host
        .holder
        .start_in_network(&["stdio", "--journal", host.folder()]);
    let (code, errors) = second.wait_for_exit();
    assert_eq!(code, Some(1));
    assert!(errors.contains("the journal of another agent"), "{errors}");
    assert!(host.folder.exists());
}
