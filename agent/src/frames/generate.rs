//! The sources at a port: frames made by a program in the kernel and redirected into the port, no system call a frame.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use aya::Ebpf;
use aya::maps::xdp::DevMap;
use serde::Serialize;

use super::loading::{self, Able, Shared, SharedWithPrograms};
use super::port::Port;
use super::template::Template;
use super::{Asked, Counts, FCS_BYTES, Frames, Outcome, Ways};
use crate::error::{Error, Result};
use crate::traffic::{End, Order, Orders};

/// Of one call, so that a thread sees in time that the load is over.
const RUNS_A_CALL: u32 = 16384;
const BATCH: u32 = 64;

/// What a source came to.
#[derive(Debug, Serialize)]
pub struct Sent {
    /// Those that the port took.
    pub frames_sent: u64,
}

/// `struct progress` of bpf/generate.bpf.c.
#[repr(C)]
#[derive(Debug)]
struct Progress {
    made: AtomicU64,
    sent: AtomicU64,
    refused: AtomicU64,
}

// SAFETY: all atomics, laid out as C does it.
unsafe impl SharedWithPrograms for Progress {}

/// One stream's program and what it has done.
#[derive(Debug)]
struct Source {
    object: Ebpf,
    progress: Shared<Progress>,
    frame: Vec<u8>,
}

/// A source for each of these keys, in their order.
pub fn open(
    port: &Port,
    asked: &Asked,
    keys: &[u32],
    ways: &mut Ways,
) -> Result<Vec<Box<dyn Frames>>> {
    let mut sources: Vec<Box<dyn Frames>> = Vec::with_capacity(keys.len());
    for key in keys {
        let source = Source::load(port, asked, *key)
            .map_err(|why| Error::Trial(format!("cannot make frames at {}: {why}", port.name)))?;
        ways.generator = Some("xdp");
        sources.push(Box::new(source));
    }
    Ok(sources)
}

impl Source {
    fn load(port: &Port, asked: &Asked, key: u32) -> Able<Self> {
        let template = Template::new(asked, port.mac, key);
        let bytes = asked.sizes[0].bytes - FCS_BYTES;
        let frame = template.frame(bytes, 0, 0, 0);
        let mut object = loading::load(loading::GENERATE, |_| {})?;
        let map = object.map_mut("port").ok_or("there is no map port")?;
        let mut map: DevMap<_> = map.try_into().map_err(|error| loading::why(&error))?;
        map.set(0, port.index, None, 0)
            .map_err(|error| loading::why(&error))?;
        loading::xdp(&mut object, "generate")?;
        let progress = Shared::of(&object, "progress")?;
        Ok(Self {
            object,
            progress,
            frame,
        })
    }
}

impl Frames for Source {
    fn run(&self, orders: &Orders) -> io::Result<End> {
        let program = self.object.program("generate").expect("it is loaded");
        let program = program.fd().expect("it is loaded");
        use std::os::fd::AsFd;
        while orders.current() == Order::Go {
            loading::run_live(program.as_fd(), &self.frame, RUNS_A_CALL, BATCH)?;
        }
        Ok(End::Drained)
    }

    fn counts(&self) -> Counts {
        let frames = self.progress.sent.load(Ordering::Relaxed);
        Counts {
            frames,
            bytes: frames * (self.frame.len() + FCS_BYTES) as u64,
        }
    }

    fn outcome(&self, _load_ended: Instant) -> Outcome {
        Outcome::Source(Sent {
            frames_sent: self.counts().frames,
        })
    }
}
