//! Starts agents and speaks with them, as a bench does.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// After this long something that should come is taken to hang. It measures nothing.
const PATIENCE: Duration = Duration::from_secs(60);

/// Asked for at run time: the name is none that a shell (agent/static-rustc) hands on to the compiler.
fn binary() -> OsString {
    std::env::var_os("CARGO_BIN_EXE_vnetbench-agent").expect("cargo runs the tests")
}

pub struct Agent {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Value>,
    reads: Arc<AtomicBool>,
    /// What came while something else was waited for.
    kept: Vec<Value>,
    next_id: u64,
}

impl Agent {
    pub fn start() -> Self {
        Self::of(Command::new(binary()).arg("stdio"))
    }

    /// An agent in a network of its own, whose loopback is up; `setup` is run there before it, by a shell.
    pub fn start_apart(setup: &str) -> Self {
        let script = format!("ip link set lo up && {setup} exec \"$0\" stdio");
        let mut command = Command::new("unshare");
        command
            .args(["--map-root-user", "--net", "sh", "-c", &script])
            .arg(binary());
        Self::of(&mut command)
    }

    /// An agent at the two ends `left` and `right` of a veth whose GRO is on, with all rights that the tests have: to load
    /// programs into the kernel takes more than root of a user namespace has.
    pub fn start_at_ports() -> Self {
        let rights: &[&str] = match is_root() {
            true => &["--net"],
            false => &["--map-root-user", "--net"],
        };
        let script = "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6 \
            && ip link add left address 02:00:00:00:00:01 type veth peer name right address 02:00:00:00:00:02 \
            && ip link set left up && ip link set right up && ip link set lo up \
            && exec \"$0\" stdio";
        let mut command = Command::new("unshare");
        command
            .args(rights)
            .args(["sh", "-c", script])
            .arg(binary());
        let mut agent = Self::of(&mut command);
        for port in ["left", "right"] {
            let gro = json!({"interface": port, "knob": "gro", "value": true});
            agent.must("knob.set", gro);
        }
        agent
    }

    /// A second agent in the network of one that was started apart.
    pub fn start_beside(&self, arguments: &[&str]) -> Self {
        Self::of(self.command_beside(binary()).args(arguments))
    }

    /// A second agent, with the rights of one that was started apart, in a network of its own without anything.
    pub fn start_aside(&self) -> Self {
        let mut command = self.command_beside("unshare".into());
        Self::of(command.arg("--net").arg(binary()).arg("stdio"))
    }

    /// Has the binary run there by hand: its exit code, standard output and standard error.
    pub fn run_binary_beside(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        outcome(self.command_beside(binary()).args(arguments))
    }

    /// Has a shell run a command there.
    pub fn run_beside(&self, command: &str) {
        let (code, _, stderr) = outcome(self.command_beside("sh".into()).args(["-c", command]));
        assert_eq!(code, Some(0), "{command}: {stderr}");
    }

    fn command_beside(&self, program: OsString) -> Command {
        let users = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/user"));
        let pid = self.pid().to_string();
        let mut command = Command::new("nsenter");
        command.args(["--target", &pid, "--net", "--preserve-credentials"]);
        if users(&pid).expect("it runs") != users("self").expect("as we do") {
            command.arg("--user");
        }
        command.arg(program);
        command
    }

    fn of(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the agent starts");
        let (heard, lines) = channel();
        let reads = Arc::new(AtomicBool::new(true));
        let output = child.stdout.take().expect("it is piped");
        let reads_still = Arc::clone(&reads);
        std::thread::spawn(move || read_all(output, &heard, &reads_still));
        Self {
            input: child.stdin.take(),
            child,
            lines,
            reads,
            kept: Vec::new(),
            next_id: 1,
        }
    }

    /// Reads no more of what the agent says (but for what is under way), or reads on.
    pub fn set_reading(&self, reads: bool) {
        self.reads.store(reads, Ordering::SeqCst);
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn write(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().expect("the input is open");
        input.write_all(bytes).expect("the agent takes its input");
    }

    /// Sends a request and returns its id.
    pub fn send(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.write(format!("{request}\n").as_bytes());
        id
    }

    pub fn reply(&mut self, id: u64) -> Result<Value, Value> {
        let mut reply = self.wait_for(|message| message["id"] == id);
        match reply.get_mut("error") {
            Some(error) => Err(error.take()),
            None => Ok(reply["result"].take()),
        }
    }

    pub fn ask(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.send(method, params);
        self.reply(id)
    }

    pub fn must(&mut self, method: &str, params: Value) -> Value {
        self.ask(method, params.clone())
            .unwrap_or_else(|error| panic!("{method} {params} was refused: {error}"))
    }

    pub fn code(&mut self, method: &str, params: Value) -> i64 {
        let error = self.ask(method, params).expect_err("this must be refused");
        error["code"].as_i64().expect("an error has a code")
    }

    pub fn event(&mut self, method: &str, trial: &str) -> Value {
        let mut event = self.wait_for(|m| m["method"] == method && m["params"]["trial"] == trial);
        event["params"].take()
    }

    /// The samples of a trial and its end.
    pub fn events(&mut self, trial: &str) -> (Vec<Value>, Value) {
        let end = self.event("trial.end", trial);
        let is_sample = |m: &Value| m["method"] == "trial.sample" && m["params"]["trial"] == trial;
        let (samples, kept) = self.kept.drain(..).partition(is_sample);
        self.kept = kept;
        let samples: Vec<Value> = samples;
        (
            samples
                .into_iter()
                .map(|mut m| m["params"].take())
                .collect(),
            end,
        )
    }

    pub fn wait_for(&mut self, is_wanted: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.kept.iter().position(&is_wanted) {
            return self.kept.remove(at);
        }
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let message = self.lines.recv_timeout(left).expect("the agent answers");
            assert!(!message.is_null(), "the agent ended: {}", self.stderr());
            if is_wanted(&message) {
                return message;
            }
            self.kept.push(message);
        }
    }

    /// Everything that has come so far and was not waited for.
    pub fn take_kept(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.kept)
    }

    pub fn close_input(&mut self) {
        self.input = None;
    }

    /// Closes its output as soon as it says something, and asks until it has ended of that; returns as `ended` does.
    pub fn ended_without_output(mut self) -> (Option<i32>, String) {
        self.lines = channel().1;
        let hello = json!({"jsonrpc": "2.0", "method": "agent.hello", "id": 0});
        while self.child.try_wait().expect("it is our child").is_none() {
            let input = self.input.as_mut().expect("the input is open");
            // Fails when it has ended since.
            let _ = input.write_all(format!("{hello}\n").as_bytes());
            std::thread::sleep(Duration::from_millis(5));
        }
        self.ended()
    }

    /// From here on what it says on standard error cannot be written.
    pub fn close_errors(&mut self) {
        self.child.stderr = None;
    }

    pub fn signal(&self, number: i32) {
        // SAFETY: the process is a child that nobody has waited for, so the number is still its own.
        assert_eq!(unsafe { libc::kill(self.pid() as i32, number) }, 0);
    }

    /// Closes the input, and returns the exit code and what came on standard error.
    pub fn finish(mut self) -> (Option<i32>, String) {
        self.close_input();
        self.ended()
    }

    /// Waits until it has ended by itself; returns the exit code and what came on standard error.
    pub fn ended(mut self) -> (Option<i32>, String) {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                return (status.code(), self.stderr());
            }
            assert!(Instant::now() < until, "the agent does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn stderr(&mut self) -> String {
        let read = |stderr: ChildStderr| std::io::read_to_string(stderr).unwrap_or_default();
        self.child.stderr.take().map(read).unwrap_or_default()
    }
}

fn read_all(output: ChildStdout, heard: &Sender<Value>, reads: &AtomicBool) {
    for line in BufReader::new(output).lines() {
        let Ok(line) = line else { return };
        let message = serde_json::from_str(&line).expect("every line of the agent is JSON");
        if heard.send(message).is_err() {
            return;
        }
        while !reads.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    // The end of the output, told as what no agent says.
    let _ = heard.send(Value::Null);
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn is_root() -> bool {
    // SAFETY: it has no arguments and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// `arguments` given to the binary by hand: its exit code, standard output and standard error.
pub fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    outcome(Command::new(binary()).args(arguments))
}

/// The same, where the binary is the first process of its namespace.
pub fn run_first(arguments: &[&str]) -> (Option<i32>, String, String) {
    let apart = ["--map-root-user", "--pid", "--mount", "--net", "--fork"];
    let mut command = Command::new("unshare");
    outcome(command.args(apart).arg(binary()).args(arguments))
}

fn outcome(command: &mut Command) -> (Option<i32>, String, String) {
    let output = command
        .stdin(Stdio::null())
        .output()
        .expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}
