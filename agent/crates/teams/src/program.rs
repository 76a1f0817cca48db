//! The BPF programs of one team, attached to its port and its members.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use aya::maps::{HashMap, MapData};
use aya::programs::tc::{SchedClassifier, TcAttachType, qdisc_add_clsact};
use aya::{Ebpf, Pod};

use crate::balance::LoadBalancing;
use crate::balancer::{Balancer, MemberTable, lock_table, read_entries};
use vnetbench_bpf::{ProbeResult, Shared, SharedWithPrograms, join_first_error_lines, load_object};

/// Largest team (`MAX_MEMBERS` in bpf/config.h).
pub const MAX_MEMBERS: usize = 16;

/// The object that build.rs compiles from bpf/team.bpf.c.
static TEAM: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/team.bpf.o"));

/// `struct team_config`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct TeamConfig {
    /// Index of the port's interface.
    pub port: u32,
    /// Number of members.
    pub member_count: u32,
    /// Indexes of the members' interfaces.
    pub members: [u32; MAX_MEMBERS],
    /// Number of a `Policy`.
    pub policy: u32,
    /// Sum of the numbers of `Field`s.
    pub fields: u32,
    /// Number of a `Reduction`.
    pub reduction: u32,
    /// The active member.
    pub active: u32,
    /// 1 if the far end bundles the links, else 0.
    pub is_bundled: u32,
}

// SAFETY: all fields are integers in C layout without padding.
unsafe impl Pod for TeamConfig {}

/// `struct team_counters`.
#[derive(Debug)]
#[repr(C)]
pub struct TeamCounters {
    frames: [AtomicU64; MAX_MEMBERS],
    received: [AtomicU64; MAX_MEMBERS],
    lacking_fields: AtomicU64,
    rejected: AtomicU64,
    turns: AtomicU64,
    assigned: AtomicU64,
}

// SAFETY: all fields are atomics, in C layout.
unsafe impl SharedWithPrograms for TeamCounters {}

impl TeamCounters {
    /// Returns the frames that each of the first `count` members sent.
    pub fn sent(&self, count: usize) -> Vec<u64> {
        load_all(&self.frames[..count])
    }

    /// Returns the frames that the port took from each of the first `count` members.
    pub fn received(&self, count: usize) -> Vec<u64> {
        load_all(&self.received[..count])
    }

    /// Returns the frames that lack a field which the policy reads.
    pub fn lacking_fields(&self) -> u64 {
        self.lacking_fields.load(Ordering::Relaxed)
    }

    /// Returns the frames that arrived at a member and were dropped.
    pub fn rejected(&self) -> u64 {
        self.rejected.load(Ordering::Relaxed)
    }
}

fn load_all(counters: &[AtomicU64]) -> Vec<u64> {
    counters
        .iter()
        .map(|each| each.load(Ordering::Relaxed))
        .collect()
}

/// The attached programs. They are detached when this value is dropped.
pub struct TeamProgram {
    /// Counters of the programs.
    pub counters: Shared<TeamCounters>,
    /// Moves ports by their load, if the team does that.
    pub balancer: Option<Balancer>,
    table: Arc<Mutex<MemberTable>>,
    /// Keeps the programs attached.
    _object: Ebpf,
}

impl TeamProgram {
    /// Loads the programs and attaches them: `choose_member` where frames leave the port, `receive` at each member.
    pub fn attach(
        config: TeamConfig,
        port: &str,
        members: &[String],
        balancing: Option<&LoadBalancing>,
    ) -> ProbeResult<Self> {
        let mut object = load_object(TEAM, |loader| {
            loader.override_global("config", &config, true);
        })?;
        let counters = Shared::mmap_bpf_array(&object, "counters")?;
        attach_program(&mut object, "receive", TcAttachType::Ingress, members)?;
        let ports = [port.to_owned()];
        attach_program(&mut object, "choose_member", TcAttachType::Egress, &ports)?;
        let table = Arc::new(Mutex::new(take_hash_map(&mut object, "table")?));
        let port_bytes = take_hash_map(&mut object, "port_bytes")?;
        let balancer = balancing
            .map(|each| Balancer::start(each.clone(), Arc::clone(&table), port_bytes))
            .transpose()?;
        Ok(Self {
            counters,
            balancer,
            table,
            _object: object,
        })
    }

    /// Returns the member of each key of the table: MAC addresses as numbers, or indexes of interfaces.
    pub fn read_table(&self) -> ProbeResult<Vec<(u64, u32)>> {
        read_entries(&lock_table(&self.table))
    }
}

fn take_hash_map<V: Pod>(object: &mut Ebpf, name: &str) -> ProbeResult<HashMap<MapData, u64, V>> {
    let map = object
        .take_map(name)
        .ok_or(format!("the BPF object has no map {name}"))?;
    HashMap::try_from(map).map_err(|error| join_first_error_lines(&error))
}

fn attach_program(
    object: &mut Ebpf,
    name: &str,
    hook: TcAttachType,
    interfaces: &[String],
) -> ProbeResult<()> {
    let program: &mut SchedClassifier = object
        .program_mut(name)
        .ok_or(format!("the BPF object has no program {name}"))?
        .try_into()
        .map_err(|error| join_first_error_lines(&error))?;
    program
        .load()
        .map_err(|error| join_first_error_lines(&error))?;
    for interface in interfaces {
        // Kernels before 6.6 need it. If it exists already, this fails; attaching then reports what is wrong.
        let _ = qdisc_add_clsact(interface);
        program
            .attach(interface, hook)
            .map_err(|error| format!("{interface}: {}", join_first_error_lines(&error)))?;
    }
    Ok(())
}
