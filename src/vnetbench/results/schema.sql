-- A campaign's results file, schema version 2. docs/results-file.md says what every column means.

CREATE TABLE campaign (
    id               INTEGER PRIMARY KEY CHECK (id = 1),
    title            TEXT    NOT NULL,
    study_text       TEXT    NOT NULL,
    study_path       TEXT,
    overrides        TEXT    NOT NULL,           -- JSON list
    seed             INTEGER NOT NULL,
    started_at       TEXT    NOT NULL,           -- ISO 8601, UTC
    status           TEXT    NOT NULL CHECK (status IN ('running', 'finished', 'interrupted')),
    writer           TEXT                        -- "pid:start" of the bench at work, NULL when none is
) STRICT;

CREATE TABLE session (
    id               INTEGER PRIMARY KEY,
    vnetbench        TEXT    NOT NULL,           -- version
    started_at       TEXT    NOT NULL,
    elapsed_s        REAL    NOT NULL DEFAULT 0  -- time at work, kept up with every trial
) STRICT;

CREATE TABLE fact (
    session_id       INTEGER NOT NULL REFERENCES session (id),
    place            TEXT    NOT NULL,           -- 'bench', 'host' or an endpoint's name
    name             TEXT    NOT NULL,
    value            TEXT    NOT NULL,           -- JSON
    PRIMARY KEY (session_id, place, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE testbed (
    shape            TEXT    PRIMARY KEY,        -- what tells testbeds apart, e.g. 'bridge pairs=1'
    description      TEXT    NOT NULL            -- JSON: endpoints, virtual switches, links
) STRICT, WITHOUT ROWID;

CREATE TABLE treatment (
    id               INTEGER PRIMARY KEY,        -- its place in the plan, from 0
    factors          TEXT    NOT NULL,           -- JSON object: factor to level
    state            TEXT    NOT NULL DEFAULT 'open',  -- open, precision, most trials, time limit, refused, failed
    reason           TEXT    NOT NULL DEFAULT ''
) STRICT;

CREATE TABLE trial (
    id               INTEGER PRIMARY KEY,
    treatment_id     INTEGER NOT NULL REFERENCES treatment (id),
    block            INTEGER NOT NULL,           -- randomised block, from 0
    session_id       INTEGER NOT NULL REFERENCES session (id),
    shape            TEXT,                       -- of its testbed
    started_s        REAL    NOT NULL,           -- time at work of the campaign when it began
    idle_s           REAL    NOT NULL,           -- of the phase before the load, as asked; 0 where there is none
    duration_s       REAL    NOT NULL,           -- of the load, as asked
    setup_s          REAL    NOT NULL,           -- knobs, proof of the path, connections, the idle phase
    state            TEXT    NOT NULL CHECK (state IN ('done', 'failed')),
    failure          TEXT    NOT NULL DEFAULT '',
    effective        TEXT    NOT NULL,           -- JSON: what was read back
    notes            TEXT    NOT NULL DEFAULT '[]'     -- JSON list of sentences
) STRICT;

CREATE UNIQUE INDEX trial_once ON trial (treatment_id, block) WHERE state = 'done';

CREATE TABLE side (
    trial_id         INTEGER NOT NULL REFERENCES trial (id),
    endpoint         TEXT    NOT NULL,           -- 'host' is the bench's host, which only observes
    role             TEXT    NOT NULL,           -- source, sink, both, observe
    bytes_sent       INTEGER NOT NULL,
    bytes_received   INTEGER NOT NULL,
    totals           TEXT    NOT NULL,           -- JSON: the agent's trial.end
    PRIMARY KEY (trial_id, endpoint)
) STRICT, WITHOUT ROWID;

CREATE TABLE sample (
    trial_id         INTEGER NOT NULL REFERENCES trial (id),
    endpoint         TEXT    NOT NULL,
    seq              INTEGER NOT NULL,
    t_s              REAL    NOT NULL,           -- end of the interval, since the trial's start
    interval_s       REAL    NOT NULL,
    bytes_sent       INTEGER NOT NULL,
    bytes_received   INTEGER NOT NULL,
    counters         TEXT    NOT NULL,           -- JSON object: counter to difference over the interval; `watched`
    cpu              TEXT,                       -- JSON list, a CPU each; of sides with a kernel of their own
    PRIMARY KEY (trial_id, endpoint, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE histogram (
    trial_id         INTEGER NOT NULL REFERENCES trial (id),
    endpoint         TEXT    NOT NULL,
    seq              INTEGER NOT NULL,           -- of its sample
    kind             TEXT    NOT NULL,           -- latency, connect, delay
    buckets          TEXT    NOT NULL,           -- JSON list: [middle of the bucket in ns, count] each
    PRIMARY KEY (trial_id, endpoint, seq, kind)
) STRICT, WITHOUT ROWID;

CREATE TABLE stream_sample (
    trial_id         INTEGER NOT NULL REFERENCES trial (id),
    endpoint         TEXT    NOT NULL,
    stream           INTEGER NOT NULL,
    seq              INTEGER NOT NULL,
    role             TEXT    NOT NULL,
    part             TEXT    NOT NULL,           -- requests, transfers; empty where all streams do the same
    bytes            INTEGER NOT NULL,
    rtt_us           REAL,
    cwnd             INTEGER,
    retransmits      INTEGER,
    info             TEXT    NOT NULL,           -- JSON: the rest, of TCP_INFO or of the datagrams' counts
    PRIMARY KEY (trial_id, endpoint, stream, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE step (
    treatment_id     INTEGER NOT NULL REFERENCES treatment (id),
    block            INTEGER NOT NULL,           -- with the treatment: of which trial, which may not be over
    number           INTEGER NOT NULL,           -- from 0
    session_id       INTEGER NOT NULL REFERENCES session (id),
    purpose          TEXT    NOT NULL,           -- generator, search, curve, burst
    load_fps         REAL,                       -- of each direction of each pair; NULL: as fast as it goes
    burst_frames     INTEGER,                    -- of each direction of each pair; NULL: no burst
    duration_s       REAL    NOT NULL,           -- of the load, as asked
    started_s        REAL    NOT NULL,           -- time at work of the campaign when it began
    took_s           REAL    NOT NULL,           -- with all that a step costs beside its load
    sent             INTEGER NOT NULL,           -- frames, all directions and pairs
    received         INTEGER NOT NULL,           -- distinct ones of these
    details          TEXT    NOT NULL,           -- JSON: by direction, duplicates, order, foreign frames, delay
    PRIMARY KEY (treatment_id, block, number)
) STRICT, WITHOUT ROWID;
