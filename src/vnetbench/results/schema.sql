-- Results file of a campaign, schema version 5. docs/results-file.md describes every column.

CREATE TABLE campaign (
    id               INTEGER PRIMARY KEY CHECK (id = 1),
    title            TEXT    NOT NULL,
    study_text       TEXT    NOT NULL,
    study_path       TEXT,
    overrides        TEXT    NOT NULL,           -- JSON list
    seed             INTEGER NOT NULL,
    started_at       TEXT    NOT NULL,           -- ISO 8601, UTC
    status           TEXT    NOT NULL CHECK (status IN ('running', 'finished', 'interrupted')),
    writer           TEXT                        -- "pid:start" of the bench that runs it, or NULL
) STRICT;

CREATE TABLE session (
    id               INTEGER PRIMARY KEY,
    vnetbench_version TEXT   NOT NULL,
    started_at       TEXT    NOT NULL,
    elapsed_s        REAL    NOT NULL DEFAULT 0  -- running time of this session alone, updated with every trial
) STRICT;

CREATE TABLE fact (
    session_id       INTEGER NOT NULL REFERENCES session (id),
    subject          TEXT    NOT NULL,           -- 'bench', 'host' or an endpoint's name
    name             TEXT    NOT NULL,
    value            TEXT    NOT NULL,           -- JSON
    PRIMARY KEY (session_id, subject, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE testbed (
    shape            TEXT    PRIMARY KEY,        -- identifies the testbed, e.g. 'bridge pairs=1'
    description      TEXT    NOT NULL            -- JSON: endpoints, virtual switches, links
) STRICT, WITHOUT ROWID;

CREATE TABLE treatment (
    id               INTEGER PRIMARY KEY,        -- its index in the plan, from 0
    factors          TEXT    NOT NULL,           -- JSON object: factor to level
    state            TEXT    NOT NULL DEFAULT 'open',  -- open, precision, trial limit, time limit, refused, failed
    reason           TEXT    NOT NULL DEFAULT ''
) STRICT;

CREATE TABLE trial (
    id               INTEGER PRIMARY KEY,
    treatment_id     INTEGER NOT NULL REFERENCES treatment (id),
    block            INTEGER NOT NULL,           -- randomised block, from 0
    session_id       INTEGER NOT NULL REFERENCES session (id),
    testbed_shape    TEXT,
    started_s        REAL    NOT NULL,           -- running time of the campaign at its start
    idle_s           REAL    NOT NULL,           -- requested duration of the phase before the load, or 0
    duration_s       REAL    NOT NULL,           -- requested duration of the load
    setup_s          REAL    NOT NULL,           -- settings, path check, connections and the idle phase
    state            TEXT    NOT NULL CHECK (state IN ('done', 'failed')),
    failure          TEXT    NOT NULL DEFAULT '',
    effective        TEXT    NOT NULL,           -- JSON: settings as read back
    notes            TEXT    NOT NULL DEFAULT '[]'     -- JSON list of sentences
) STRICT;

CREATE UNIQUE INDEX trial_once ON trial (treatment_id, block) WHERE state = 'done';

CREATE TABLE endpoint (
    trial_id         INTEGER NOT NULL REFERENCES trial (id),
    name             TEXT    NOT NULL,           -- 'host' is the bench's machine, which only observes
    role             TEXT    NOT NULL,           -- source, sink, both, observe
    bytes_sent       INTEGER NOT NULL,
    bytes_received   INTEGER NOT NULL,
    PRIMARY KEY (trial_id, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE endpoint_data (
    id               INTEGER PRIMARY KEY,
    trial_id         INTEGER NOT NULL REFERENCES trial (id),
    endpoint         TEXT    NOT NULL,
    part             INTEGER NOT NULL,           -- from 0; more than one part only for very long trials
    json_bytes       INTEGER NOT NULL,           -- length of the JSON text
    data             BLOB    NOT NULL,           -- JSON, compressed with zlib: totals, and samples as columns
    UNIQUE (trial_id, endpoint, part)
) STRICT;

CREATE TABLE step (
    treatment_id     INTEGER NOT NULL REFERENCES treatment (id),
    block            INTEGER NOT NULL,           -- with the treatment: the trial, which may be running
    number           INTEGER NOT NULL,           -- from 0
    session_id       INTEGER NOT NULL REFERENCES session (id),
    purpose          TEXT    NOT NULL,           -- generator, search, curve, burst
    load_fps         REAL,                       -- per direction of each pair; NULL: maximum rate
    burst_frames     INTEGER,                    -- per direction of each pair; NULL: no burst
    duration_s       REAL    NOT NULL,           -- requested duration of the load
    started_s        REAL    NOT NULL,           -- running time of the campaign at its start
    elapsed_s        REAL    NOT NULL,           -- duration including its set-up
    sent             INTEGER NOT NULL,           -- frames over all directions and pairs
    received         INTEGER NOT NULL,           -- distinct frames
    details          TEXT    NOT NULL,           -- JSON: counts by direction, duplicates, order, foreign frames
    PRIMARY KEY (treatment_id, block, number)
) STRICT, WITHOUT ROWID;
