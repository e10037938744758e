-- A store as the ninth schema had it: one job that has ended, and one whose runner is gone.
CREATE TABLE jobs ( id INTEGER PRIMARY KEY, display_name TEXT NOT NULL, state TEXT NOT NULL, create_time TEXT NOT NULL,
 start_time TEXT, end_time TEXT, update_time TEXT NOT NULL, error_code INTEGER NOT NULL DEFAULT 0, error_message TEXT,
 labels TEXT NOT NULL, directory TEXT NOT NULL);
ALTER TABLE jobs ADD COLUMN guard_pid INTEGER;
ALTER TABLE jobs ADD COLUMN guard_start INTEGER;
ALTER TABLE jobs ADD COLUMN guard_boot TEXT;
ALTER TABLE jobs ADD COLUMN cancel_time TEXT;
ALTER TABLE jobs ADD COLUMN bytes INTEGER;
ALTER TABLE jobs ADD COLUMN has_outputs INTEGER;
CREATE INDEX jobs_unmeasured ON jobs (id) WHERE end_time IS NOT NULL AND bytes IS NULL;
CREATE INDEX jobs_ended ON jobs (end_time, has_outputs, bytes) WHERE end_time IS NOT NULL;
CREATE INDEX jobs_by_directory ON jobs (directory);
ALTER TABLE jobs ADD COLUMN kind INTEGER NOT NULL DEFAULT 0;
CREATE INDEX jobs_open ON jobs (id) WHERE end_time IS NULL;
CREATE TABLE specs ( id INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE, resource TEXT NOT NULL);
ALTER TABLE jobs ADD COLUMN project TEXT;
ALTER TABLE jobs ADD COLUMN location TEXT;
CREATE TABLE queue ( id INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE, spec TEXT, cpus INTEGER NOT NULL,
 memory_bytes INTEGER NOT NULL, gpus INTEGER NOT NULL, devices TEXT, priority INTEGER NOT NULL, max_wait_s INTEGER NOT NULL,
 timeout_s INTEGER NOT NULL);
CREATE TABLE operations ( id INTEGER PRIMARY KEY, resource TEXT NOT NULL, create_time TEXT NOT NULL);
CREATE TABLE notices ( id INTEGER PRIMARY KEY AUTOINCREMENT, job INTEGER NOT NULL, time TEXT NOT NULL, display_name TEXT NOT NULL,
 state TEXT NOT NULL, create_time TEXT NOT NULL, start_time TEXT, end_time TEXT, error_code INTEGER NOT NULL, error_message TEXT,
 labels TEXT NOT NULL, kind INTEGER NOT NULL, project TEXT NOT NULL, location TEXT NOT NULL, attempts INTEGER NOT NULL DEFAULT 0,
 due_s INTEGER NOT NULL DEFAULT 0);
CREATE INDEX notices_by_job ON notices (job);
CREATE TABLE host_failures ( host TEXT PRIMARY KEY, in_a_row INTEGER NOT NULL, last_s INTEGER NOT NULL) WITHOUT ROWID;
ALTER TABLE queue ADD COLUMN preemption INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queue ADD COLUMN preempted_by INTEGER;
CREATE TRIGGER spec_leaves AFTER UPDATE OF end_time ON jobs WHEN NEW.end_time IS NOT NULL BEGIN
 UPDATE queue SET spec = NULL WHERE id = NEW.id; END;
CREATE INDEX jobs_listed ON jobs (kind, create_time DESC, id, display_name, state, start_time, end_time, update_time, project,
 location, labels);
INSERT INTO jobs
 (id, display_name, state, create_time, start_time, end_time, update_time, error_code, error_message, labels, directory)
 VALUES(3771507959962938873,'ended','JOB_STATE_SUCCEEDED','2026-11-22T04:29:11.003102882Z',
 '2026-11-22T04:29:11.053670164Z','2026-11-22T04:29:11.380610727Z','2026-11-22T04:29:11.381945476Z',0,NULL,'{}','/nowhere/ended');
INSERT INTO jobs
 (id, display_name, state, create_time, start_time, end_time, update_time, error_code, error_message, labels, directory)
 VALUES(4771507959962938873,'gone','JOB_STATE_RUNNING','2026-11-22T04:30:11.003102882Z',
 '2026-11-22T04:30:11.053670164Z',NULL,'2026-11-22T04:30:11.381945476Z',0,NULL,'{}','/nowhere/gone');
INSERT INTO specs VALUES(3771507959962938873,'{"displayName":"ended","jobSpec":{"workerPoolSpecs":[{"replicaCount":1}]}}');
INSERT INTO specs VALUES(4771507959962938873,'{"displayName":"gone","jobSpec":{"workerPoolSpecs":[{"replicaCount":2}]}}');
PRAGMA user_version = 9;
