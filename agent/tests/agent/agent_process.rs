//! Starts agents and sends them requests, as the bench does.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long to wait before a test counts as hung. It is no measurement.
const HANG_TIMEOUT: Duration = Duration::from_secs(60);

/// Returns the path of the binary under test.
///
/// Reads the variable at run time: its name contains a hyphen, so the shell script agent/static-rustc does not pass it on.
fn binary() -> OsString {
    std::env::var_os("CARGO_BIN_EXE_vnetbench-agent").expect("cargo runs the tests")
}

/// A running agent.
pub struct Agent {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Value>,
    reads: Arc<AtomicBool>,
    /// Messages that arrived while the test waited for another one.
    unread: Vec<Value>,
    next_id: u64,
}

impl Agent {
    /// Starts an agent.
    pub fn start() -> Self {
        Self::spawn(Command::new(binary()).arg("stdio"))
    }

    /// Starts an agent in a new network namespace whose loopback is up. The shell commands `setup` run there first.
    pub fn start_in_new_network(setup: &str) -> Self {
        let script = format!("ip link set lo up && {setup} exec \"$0\" stdio");
        let mut command = Command::new("unshare");
        command
            .args(["--map-root-user", "--net", "sh", "-c", &script])
            .arg(binary());
        Self::spawn(&mut command)
    }

    /// Starts an agent in a new network namespace with a veth pair `left` and `right` whose GRO is on.
    ///
    /// Keeps all privileges of the tests: loading BPF programs needs more than root in a user namespace has.
    pub fn start_with_veth() -> Self {
        let options: &[&str] = match is_root() {
            true => &["--net"],
            false => &["--map-root-user", "--net"],
        };
        let script = "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6 \
            && ip link add left address 02:00:00:00:00:01 type veth peer name right address 02:00:00:00:00:02 \
            && ip link set left up && ip link set right up && ip link set lo up \
            && exec \"$0\" stdio";
        let mut command = Command::new("unshare");
        command
            .args(options)
            .args(["sh", "-c", script])
            .arg(binary());
        let mut agent = Self::spawn(&mut command);
        for port in ["left", "right"] {
            let gro = json!({"interface": port, "knob": "gro", "value": true});
            agent.expect_result("knob.set", gro);
        }
        agent
    }

    /// Starts a second agent in this agent's network namespace.
    pub fn start_in_network(&self, arguments: &[&str]) -> Self {
        Self::spawn(self.command_in_network(binary()).args(arguments))
    }

    /// Starts a second agent with this agent's privileges in a new, empty network namespace.
    pub fn start_in_empty_network(&self) -> Self {
        let mut command = self.command_in_network("unshare".into());
        Self::spawn(command.arg("--net").arg(binary()).arg("stdio"))
    }

    /// Runs the binary in this agent's network namespace. Returns its exit code, standard output and standard error.
    pub fn run_binary_in_network(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        run_to_end(self.command_in_network(binary()).args(arguments))
    }

    /// Runs a shell command in this agent's network namespace.
    pub fn run_in_network(&self, command: &str) {
        let (code, _, stderr) =
            run_to_end(self.command_in_network("sh".into()).args(["-c", command]));
        assert_eq!(code, Some(0), "{command}: {stderr}");
    }

    /// Runs a shell command in this agent's network namespace, and returns whether it succeeds.
    pub fn can_run_in_network(&self, command: &str) -> bool {
        let (code, ..) = run_to_end(self.command_in_network("sh".into()).args(["-c", command]));
        code == Some(0)
    }

    fn command_in_network(&self, program: OsString) -> Command {
        let user_namespace = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/user"));
        let pid = self.pid().to_string();
        let mut command = Command::new("nsenter");
        command.args(["--target", &pid, "--net", "--preserve-credentials"]);
        if user_namespace(&pid).expect("the agent runs") != user_namespace("self").expect("Linux") {
            command.arg("--user");
        }
        command.arg(program);
        command
    }

    fn spawn(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the agent starts");
        let (sender, lines) = channel();
        let reads = Arc::new(AtomicBool::new(true));
        let output = child.stdout.take().expect("standard output is piped");
        let reader_flag = Arc::clone(&reads);
        std::thread::spawn(move || read_all(output, &sender, &reader_flag));
        Self {
            input: child.stdin.take(),
            child,
            lines,
            reads,
            unread: Vec::new(),
            next_id: 1,
        }
    }

    /// Stops or resumes reading the agent's output.
    pub fn set_reading(&self, reads: bool) {
        self.reads.store(reads, Ordering::SeqCst);
    }

    /// Returns the agent's process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Writes bytes to the agent's standard input.
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

    /// Waits for the answer to a request: its result, or its error.
    pub fn wait_for_reply(&mut self, id: u64) -> Result<Value, Value> {
        let mut reply = self.wait_for(|message| message["id"] == id);
        match reply.get_mut("error") {
            Some(error) => Err(error.take()),
            None => Ok(reply["result"].take()),
        }
    }

    /// Sends a request and waits for its answer.
    pub fn request(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.send(method, params);
        self.wait_for_reply(id)
    }

    /// Sends a request that must succeed, and returns its result.
    pub fn expect_result(&mut self, method: &str, params: Value) -> Value {
        self.request(method, params.clone())
            .unwrap_or_else(|error| panic!("{method} {params} failed: {error}"))
    }

    /// Sends a request that must fail, and returns the error code.
    pub fn expect_error_code(&mut self, method: &str, params: Value) -> i64 {
        let error = self
            .request(method, params)
            .expect_err("the request must fail");
        error["code"].as_i64().expect("an error has a code")
    }

    /// Waits for an event of a trial, and returns its parameters.
    pub fn wait_for_event(&mut self, method: &str, trial: &str) -> Value {
        let mut event = self.wait_for(|m| m["method"] == method && m["params"]["trial"] == trial);
        event["params"].take()
    }

    /// Waits for the end of a trial. Returns its samples and its `trial.end`.
    pub fn wait_for_end(&mut self, trial: &str) -> (Vec<Value>, Value) {
        let end = self.wait_for_event("trial.end", trial);
        let is_sample = |m: &Value| m["method"] == "trial.sample" && m["params"]["trial"] == trial;
        let (samples, others) = self.unread.drain(..).partition(is_sample);
        self.unread = others;
        let samples: Vec<Value> = samples;
        (
            samples
                .into_iter()
                .map(|mut m| m["params"].take())
                .collect(),
            end,
        )
    }

    /// Waits for a message that meets a condition. Keeps all others for later calls.
    pub fn wait_for(&mut self, is_wanted: impl Fn(&Value) -> bool) -> Value {
        if let Some(index) = self.unread.iter().position(&is_wanted) {
            return self.unread.remove(index);
        }
        let until = Instant::now() + HANG_TIMEOUT;
        loop {
            let remaining = until.saturating_duration_since(Instant::now());
            let message = self
                .lines
                .recv_timeout(remaining)
                .expect("the agent answers");
            assert!(!message.is_null(), "the agent ended: {}", self.stderr());
            if is_wanted(&message) {
                return message;
            }
            self.unread.push(message);
        }
    }

    /// Returns all messages that arrived and that no call waited for.
    pub fn take_unread_messages(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.unread)
    }

    /// Closes the agent's standard input.
    pub fn close_input(&mut self) {
        self.input = None;
    }

    /// Closes the reading end of the agent's output, and sends requests until the agent ends because of that.
    pub fn wait_for_exit_with_closed_output(mut self) -> (Option<i32>, String) {
        self.lines = channel().1;
        let hello = json!({"jsonrpc": "2.0", "method": "agent.hello", "id": 0});
        while self
            .child
            .try_wait()
            .expect("the agent is a child process")
            .is_none()
        {
            let input = self.input.as_mut().expect("the input is open");
            // Fails if the agent has ended meanwhile.
            let _ = input.write_all(format!("{hello}\n").as_bytes());
            std::thread::sleep(Duration::from_millis(5));
        }
        self.wait_for_exit()
    }

    /// Closes the reading end of the agent's standard error.
    pub fn close_errors(&mut self) {
        self.child.stderr = None;
    }

    /// Sends the agent a signal.
    pub fn signal(&self, number: i32) {
        // SAFETY: the process is a child that was not waited for, so its process id is still valid.
        assert_eq!(unsafe { libc::kill(self.pid() as i32, number) }, 0);
    }

    /// Closes the input, and waits for the agent to end. Returns the exit code and standard error.
    pub fn finish(mut self) -> (Option<i32>, String) {
        self.close_input();
        self.wait_for_exit()
    }

    /// Waits for the agent to end by itself. Returns the exit code and standard error.
    pub fn wait_for_exit(mut self) -> (Option<i32>, String) {
        let until = Instant::now() + HANG_TIMEOUT;
        loop {
            if let Some(status) = self.child.try_wait().expect("the agent is a child process") {
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

fn read_all(output: ChildStdout, sender: &Sender<Value>, reads: &AtomicBool) {
    for line in BufReader::new(output).lines() {
        let Ok(line) = line else { return };
        let message = serde_json::from_str(&line).expect("every line of the agent is JSON");
        if sender.send(message).is_err() {
            return;
        }
        while !reads.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    // Marks the end of the output. An agent never sends null.
    let _ = sender.send(Value::Null);
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns whether the tests run as root.
pub fn is_root() -> bool {
    // SAFETY: geteuid has no arguments and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Runs the binary with these arguments. Returns its exit code, standard output and standard error.
pub fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    run_to_end(Command::new(binary()).args(arguments))
}

/// Runs the binary as the first process of a new PID namespace. Returns the same as [`run`].
pub fn run_as_first_process(arguments: &[&str]) -> (Option<i32>, String, String) {
    let options = ["--map-root-user", "--pid", "--mount", "--net", "--fork"];
    let mut command = Command::new("unshare");
    run_to_end(command.args(options).arg(binary()).args(arguments))
}

fn run_to_end(command: &mut Command) -> (Option<i32>, String, String) {
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
