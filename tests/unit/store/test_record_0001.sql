-- A record of format 0001, as `sqlite3 record.sqlite .dump` prints it.
PRAGMA application_id = 1347568466;
BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0001');
CREATE TABLE artifact (
	run_key BIGINT NOT NULL, 
	attempt_id TEXT NOT NULL, 
	try_number BIGINT NOT NULL, 
	name TEXT NOT NULL, 
	sha256 TEXT NOT NULL, 
	size_bytes BIGINT NOT NULL, 
	PRIMARY KEY (run_key, attempt_id, try_number, name)
)
 WITHOUT ROWID

;
INSERT INTO "artifact" VALUES(1121533923600206073,'aaaaaaaaaaaa',1,'checkpoint/answer.txt','abababababababababababababababababababababababababababababababab',5);
CREATE TABLE attempt (
	run_key BIGINT NOT NULL, 
	attempt_id TEXT NOT NULL, 
	task TEXT, 
	ordinal BIGINT, 
	identity TEXT, 
	verdict TEXT, 
	score DOUBLE, 
	tries BIGINT NOT NULL, 
	issues BIGINT NOT NULL, 
	checkpoint_try BIGINT, 
	started_at TEXT, 
	ended_at TEXT, 
	agent_seconds DOUBLE, 
	execution_seconds DOUBLE, 
	cost_usd DOUBLE, 
	sub_scores TEXT, 
	checks BIGINT, 
	checks_ok BIGINT, 
	PRIMARY KEY (run_key, attempt_id)
);
INSERT INTO "attempt" VALUES(1121533923600206073,'aaaaaaaaaaaa','one',0,'identity of one','passed',1.0,1,0,1,'2026-11-30T16:30:36.123456Z','2026-11-30T16:30:47.123456Z',2.0,3.75,0.25,NULL,0,0);
INSERT INTO "attempt" VALUES(1121533923600206073,'bbbbbbbbbbbb','two',0,'identity of two','failed',0.0,1,1,1,'2026-11-30T16:30:48.123456Z','2026-11-30T16:30:59.123456Z',2.0,3.75,0.25,NULL,0,0);
CREATE TABLE identity_part (
	run_key BIGINT NOT NULL, 
	task TEXT NOT NULL, 
	part TEXT NOT NULL, 
	hash TEXT NOT NULL, 
	PRIMARY KEY (run_key, task, part)
)
 WITHOUT ROWID

;
INSERT INTO "identity_part" VALUES(1121533923600206073,'','model','m1');
INSERT INTO "identity_part" VALUES(1121533923600206073,'one','task','hash of one');
INSERT INTO "identity_part" VALUES(1121533923600206073,'three','task','hash of three');
INSERT INTO "identity_part" VALUES(1121533923600206073,'two','task','hash of two');
CREATE TABLE invocation (
	invocation_id TEXT NOT NULL, 
	proctor TEXT, 
	host TEXT, 
	pid BIGINT, 
	started_at TEXT, 
	ended_at TEXT, 
	runs BIGINT, 
	signal BIGINT, 
	PRIMARY KEY (invocation_id)
)
 WITHOUT ROWID

;
INSERT INTO "invocation" VALUES('invocation01','0.1.0','host',7,'2026-11-30T16:30:35.123456Z','2026-11-30T16:31:00.123456Z',1,NULL);
CREATE TABLE issue (
	run_key BIGINT NOT NULL, 
	attempt_id TEXT, 
	try_number BIGINT, 
	position BIGINT NOT NULL, 
	code TEXT NOT NULL, 
	severity TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	phase TEXT, 
	message TEXT NOT NULL
);
INSERT INTO "issue" VALUES(1121533923600206073,'bbbbbbbbbbbb',1,0,'time.agent','ERROR','agent','agent','limit of 60 s reached');
CREATE TABLE journal (
	run_key BIGINT NOT NULL, 
	bytes BIGINT NOT NULL, 
	lines BIGINT NOT NULL, 
	resume_bytes BIGINT NOT NULL, 
	complete BOOLEAN NOT NULL, 
	tail_sha256 TEXT NOT NULL, 
	size_bytes BIGINT NOT NULL, 
	modified_ns BIGINT NOT NULL, 
	inode BIGINT NOT NULL, 
	plan_size_bytes BIGINT, 
	plan_modified_ns BIGINT, 
	plan_inode BIGINT, 
	plan_sha256 TEXT, 
	plan_problem TEXT, 
	problem TEXT, 
	PRIMARY KEY (run_key)
);
INSERT INTO "journal" VALUES(1121533923600206073,3771,26,3771,1,'393a7d486735ee43395ad887efcb3d921489f838bc728a666bffd7be87c5e53d',3771,1796071243356434085,2147734,605,1796071243316434086,2147726,'84e0913f250ffa6eb3b5ab09c40f9c2eefed943161c15e0f7fc9bf42c7eebf8a',NULL,NULL);
CREATE TABLE member (
	run_key BIGINT NOT NULL, 
	task TEXT NOT NULL, 
	ordinal BIGINT NOT NULL, 
	attempt_id TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	source_directory TEXT, 
	PRIMARY KEY (run_key, task, ordinal, attempt_id, kind)
)
 WITHOUT ROWID

;
INSERT INTO "member" VALUES(1121533923600206073,'one',0,'aaaaaaaaaaaa','origin',NULL);
INSERT INTO "member" VALUES(1121533923600206073,'three',0,'zzzzzzzzzzzz','reference',NULL);
INSERT INTO "member" VALUES(1121533923600206073,'two',0,'bbbbbbbbbbbb','origin',NULL);
CREATE TABLE run (
	run_key BIGINT NOT NULL, 
	root TEXT NOT NULL, 
	directory TEXT NOT NULL, 
	group_directory TEXT NOT NULL, 
	run_id TEXT, 
	invocation_id TEXT, 
	experiment TEXT, 
	benchmark TEXT, 
	harness TEXT, 
	model TEXT, 
	provider TEXT, 
	grading TEXT, 
	attempts_per_task BIGINT, 
	slots BIGINT, 
	tasks BIGINT, 
	early_exit BOOLEAN, 
	agent_timeout_seconds DOUBLE, 
	timeout_seconds DOUBLE, 
	proctor TEXT, 
	journal_format BIGINT, 
	host TEXT, 
	pid BIGINT, 
	started_at TEXT, 
	ended_at TEXT, 
	completion TEXT, 
	not_dispatched BIGINT, 
	signal BIGINT, 
	PRIMARY KEY (run_key)
);
INSERT INTO "run" VALUES(1121533923600206073,'','gpt-x_humaneval_chat/r1','gpt-x_humaneval_chat','r1','invocation01','base','humaneval','chat','gpt-x','local','none',1,3,3,0,60.0,300.0,'0.1.0',1,'host',7,'2026-11-30T16:30:35.123456Z','2026-11-30T16:31:00.123456Z','complete',0,NULL);
CREATE TABLE slot (
	run_key BIGINT NOT NULL, 
	task TEXT NOT NULL, 
	ordinal BIGINT NOT NULL, 
	position BIGINT NOT NULL, 
	identity TEXT, 
	decision TEXT, 
	reason TEXT, 
	source_attempt_id TEXT, 
	PRIMARY KEY (run_key, task, ordinal)
)
 WITHOUT ROWID

;
INSERT INTO "slot" VALUES(1121533923600206073,'one',0,0,'identity of one','execute','new',NULL);
INSERT INTO "slot" VALUES(1121533923600206073,'three',0,2,'identity of three','reuse','identity equal','zzzzzzzzzzzz');
INSERT INTO "slot" VALUES(1121533923600206073,'two',0,1,'identity of two','execute','new',NULL);
CREATE TABLE try (
	run_key BIGINT NOT NULL, 
	attempt_id TEXT NOT NULL, 
	try_number BIGINT NOT NULL, 
	counted BOOLEAN NOT NULL, 
	grading_only BOOLEAN NOT NULL, 
	outcome TEXT, 
	solved BOOLEAN, 
	score DOUBLE, 
	started_at TEXT, 
	ended_at TEXT, 
	open_seconds DOUBLE, 
	setup_seconds DOUBLE, 
	agent_seconds DOUBLE, 
	collect_seconds DOUBLE, 
	grade_seconds DOUBLE, 
	dispose_seconds DOUBLE, 
	backoff_seconds DOUBLE, 
	checkpointed_at TEXT, 
	answer_sha256 TEXT, 
	PRIMARY KEY (run_key, attempt_id, try_number)
)
 WITHOUT ROWID

;
INSERT INTO "try" VALUES(1121533923600206073,'aaaaaaaaaaaa',1,1,0,'graded',1,1.0,'2026-11-30T16:30:36.123456Z','2026-11-30T16:30:46.123456Z',0.5,NULL,2.0,0.25,1.0,NULL,NULL,'2026-11-30T16:30:43.123456Z','abababababababababababababababababababababababababababababababab');
INSERT INTO "try" VALUES(1121533923600206073,'bbbbbbbbbbbb',1,1,0,'graded',0,0.0,'2026-11-30T16:30:48.123456Z','2026-11-30T16:30:58.123456Z',0.5,NULL,2.0,0.25,1.0,NULL,NULL,'2026-11-30T16:30:55.123456Z','abababababababababababababababababababababababababababababababab');
CREATE TABLE usage (
	run_key BIGINT NOT NULL, 
	attempt_id TEXT NOT NULL, 
	try_number BIGINT NOT NULL, 
	kind TEXT NOT NULL, 
	calls BIGINT NOT NULL, 
	input_tokens BIGINT NOT NULL, 
	output_tokens BIGINT NOT NULL, 
	cache_read_tokens BIGINT NOT NULL, 
	cache_write_tokens BIGINT NOT NULL, 
	reasoning_tokens BIGINT NOT NULL, 
	cost_usd DOUBLE, 
	PRIMARY KEY (run_key, attempt_id, try_number, kind)
)
 WITHOUT ROWID

;
INSERT INTO "usage" VALUES(1121533923600206073,'aaaaaaaaaaaa',1,'agent',2,100,20,0,0,0,0.25);
INSERT INTO "usage" VALUES(1121533923600206073,'bbbbbbbbbbbb',1,'agent',2,100,20,0,0,0,0.25);
CREATE INDEX run_by_group ON run (group_directory);
CREATE UNIQUE INDEX run_by_directory ON run (root, directory);
CREATE INDEX run_by_invocation ON run (invocation_id);
CREATE INDEX slot_by_identity ON slot (identity) WHERE source_attempt_id IS NOT NULL;
CREATE INDEX member_by_reference ON member (attempt_id) WHERE kind = 'reference';
CREATE INDEX attempt_by_id ON attempt (attempt_id);
CREATE INDEX attempt_by_identity ON attempt (identity);
CREATE INDEX attempt_by_slot ON attempt (task, ordinal);
CREATE UNIQUE INDEX issue_by_try ON issue (run_key, attempt_id, try_number, position);
COMMIT;
