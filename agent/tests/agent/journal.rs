//! What an agent has changed on a host is put back, however it ends.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::driving::{Agent, run};

const VETHS: &str = "ip link add vnb0 numtxqueues 2 numrxqueues 2 type veth peer name vnb1 &&";

/// A host with two interfaces that stands for one of a user's, and the folder that a bench has made there.
struct Host {
    /// Keeps the host's network, and tells how it stands.
    holder: Agent,
    folder: PathBuf,
}

impl Host {
    fn new(test: &str) -> Self {
        let name = format!("vnetbench-{test}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).expect("a folder of our own");
        std::fs::set_permissions(&folder, Permissions::from_mode(0o700)).expect("it is ours");
        let holder = Agent::start_apart(VETHS);
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
            .start_beside(&["stdio", "--journal", self.folder()]);
        agent.must("agent.hello", json!({}));
        agent
    }

    fn restore(&self) -> (Option<i32>, String, String) {
        self.holder.run_binary_beside(&["restore", self.folder()])
    }

    fn values(&mut self) -> Value {
        let knobs = json!({"interface": "vnb0", "knobs": ["mtu", "tso", "tx_checksum", "queues"]});
        self.holder.must("knob.get", knobs)["values"].take()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn set(agent: &mut Agent, knob: &str, value: Value) {
    let answer = agent.must(
        "knob.set",
        json!({"interface": "vnb0", "knob": knob, "value": value}),
    );
    assert_eq!(answer["found"], value, "{knob}");
}

/// Sets one more than once, and some of which one takes another with it.
fn set_all(agent: &mut Agent) {
    set(agent, "mtu", json!(9000));
    set(agent, "tso", json!(false));
    set(agent, "tx_checksum", json!(false));
    set(agent, "queues", json!(1));
    set(agent, "mtu", json!(4000));
}

#[test]
fn all_is_as_it_was_found_when_the_input_ends() {
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
fn what_another_knob_took_with_it_is_put_back_as_it_was_before_that() {
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
fn a_signal_that_ends_it_has_all_put_back_first() {
    for signal in [libc::SIGTERM, libc::SIGHUP, libc::SIGINT] {
        let mut host = Host::new(&format!("signal{signal}"));
        let before = host.values();
        let mut agent = host.agent();
        set_all(&mut agent);
        agent.signal(signal);
        assert_eq!(agent.ended(), (Some(0), String::new()));
        assert_eq!(host.values(), before);
        assert!(!host.folder.exists());
    }
}

#[test]
fn a_bench_that_no_longer_listens_has_all_put_back() {
    let mut host = Host::new("output");
    let before = host.values();
    let mut agent = host.agent();
    set_all(&mut agent);
    assert_eq!(agent.ended_without_output(), (Some(0), String::new()));
    assert_eq!(host.values(), before);
    assert!(!host.folder.exists());
}

#[test]
fn what_a_killed_agent_has_left_is_restored() {
    let mut host = Host::new("killed");
    let before = host.values();
    let mut agent = host.agent();
    set_all(&mut agent);
    agent.signal(libc::SIGKILL);
    agent.ended();
    assert_ne!(host.values(), before);
    let (code, output, errors) = host.restore();
    assert_eq!((code, errors.as_str()), (Some(0), ""), "{output}");
    assert!(output.contains("mtu of vnb0 is 1500 again\n"), "{output}");
    let places =
        ["queues of", "mtu of", "tx_checksum of", "tso of"].map(|words| output.find(words));
    assert!(
        places.is_sorted() && places[0].is_some(),
        "what changes others comes first: {output}"
    );
    assert!(!output.contains("gro of"), "it was never changed: {output}");
    assert_eq!(host.values(), before);
    assert!(!host.folder.exists());
}

#[test]
fn a_folder_whose_agent_changed_nothing_is_removed() {
    let host = Host::new("nothing");
    host.agent().signal(libc::SIGKILL);
    let (code, output, _) = host.restore();
    assert_eq!((code, output.as_str()), (Some(0), "nothing was changed\n"));
    assert!(!host.folder.exists());
}

#[test]
fn an_agent_that_still_serves_is_told_to_end_by_who_restores() {
    let mut host = Host::new("serving");
    let before = host.values();
    let mut agent = host.agent();
    set_all(&mut agent);
    let (code, output, _) = host.restore();
    assert_eq!(code, Some(0), "{output}");
    assert_eq!(agent.ended(), (Some(0), String::new()));
    assert_eq!(host.values(), before);
    assert!(!host.folder.exists());
}

#[test]
fn what_cannot_be_put_back_is_said_and_the_rest_is_put_back() {
    let mut host = Host::new("vanished");
    let mut agent = host.agent();
    let on_other = json!({"interface": "vnb1", "knob": "mtu", "value": 3000});
    set(&mut agent, "mtu", json!(9000));
    agent.must("knob.set", on_other);
    host.holder.run_beside("ip link set vnb1 name vnb7");
    agent.signal(libc::SIGKILL);
    agent.ended();
    let (code, output, _) = host.restore();
    assert_eq!(code, Some(1), "{output}");
    let said = "not put back to 1500: knob mtu of vnb1: cannot be read: there is no such interface";
    assert!(output.contains(said), "{output}");
    assert_eq!(host.values()["mtu"], 1500);
    assert!(host.folder.exists());
    host.holder.run_beside("ip link set vnb7 name vnb1");
    assert_eq!(host.restore().0, Some(0));
    assert!(!host.folder.exists());
}

#[test]
fn an_agent_that_cannot_put_all_back_says_so_and_leaves_its_journal() {
    let mut host = Host::new("said");
    let mut agent = host.agent();
    set(&mut agent, "mtu", json!(9000));
    host.holder.run_beside("ip link set vnb0 name vnb7");
    let (code, errors) = agent.finish();
    assert_eq!(code, Some(1));
    let said = "vnetbench-agent: not put back to 1500: knob mtu of vnb0: ";
    assert!(errors.contains(said), "{errors}");
    host.holder.run_beside("ip link set vnb7 name vnb0");
    assert_eq!(host.restore().0, Some(0));
    assert_eq!(host.values()["mtu"], 1500);
}

#[test]
fn an_agent_that_nobody_hears_ends_even_where_something_cannot_be_put_back() {
    let host = Host::new("unheard");
    let mut agent = host.agent();
    set(&mut agent, "mtu", json!(9000));
    host.holder.run_beside("ip link del vnb0");
    agent.close_errors();
    agent.signal(libc::SIGTERM);
    assert_eq!(agent.ended().0, Some(1));
    assert!(host.folder.exists());
}

#[test]
fn what_was_set_before_the_machine_was_started_anew_is_let_be() {
    let mut host = Host::new("boot");
    let mut agent = host.agent();
    set(&mut agent, "mtu", json!(9000));
    agent.signal(libc::SIGKILL);
    agent.ended();
    let journal = host.folder.join("journal");
    let text = std::fs::read_to_string(&journal).expect("it is there");
    let (_, rest) = text.split_once('\n').expect("two lines");
    std::fs::write(&journal, format!("{{\"boot\":\"another\"}}\n{rest}")).expect("it is ours");
    let (code, output, _) = host.restore();
    assert!(output.contains("started anew"), "{output}");
    assert_eq!((code, &host.values()["mtu"]), (Some(0), &json!(9000)));
    assert!(!host.folder.exists());
}

#[test]
fn a_knob_that_could_not_be_put_back_is_not_set() {
    let host = Host::new("null");
    let mut agent = host.agent();
    // Where /sys is another namespace's it cannot be read.
    let rps = json!({"interface": "vnb0", "knob": "rps_cpus", "value": "0"});
    let error = agent.ask("knob.set", rps).expect_err("it has no value");
    assert_eq!(error["code"], -32003);
    let message = error["message"].as_str().unwrap_or_default();
    assert!(message.contains("that could be put back"), "{message}");
}

#[test]
fn a_folder_that_is_none_or_has_a_journal_already_is_refused() {
    let host = Host::new("refused");
    let other = std::env::temp_dir();
    for word in ["stdio", "restore"] {
        let option: &[&str] = if word == "stdio" { &["--journal"] } else { &[] };
        let tried = |folder: &str| run(&[&[word], option, &[folder]].concat());
        let (code, output, errors) = tried(other.to_str().expect("text"));
        assert_eq!(code, Some(1));
        assert!((output + &errors).contains("begins with vnetbench-"));
    }
    host.agent().signal(libc::SIGKILL);
    let second = host
        .holder
        .start_beside(&["stdio", "--journal", host.folder()]);
    let (code, errors) = second.ended();
    assert_eq!(code, Some(1));
    assert!(errors.contains("the journal of another agent"), "{errors}");
    assert!(host.folder.exists());
}
