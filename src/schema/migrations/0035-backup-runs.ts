// What became of each backup and each drill.

export const backupRuns = `
create table backup_runs (
  key integer primary key autoincrement,
  id text not null unique,
  kind text not null,
  target text not null,
  name text,
  started_at integer not null,
  ended_at integer not null,
  octets integer,
  files integer,
  rows integer,
  way text,
  fault text
) strict;
create index backup_runs_by_target on backup_runs (target, kind, ended_at);
create index backup_runs_by_end on backup_runs (ended_at);
`
