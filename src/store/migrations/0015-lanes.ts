// What was learned of exchangers, lane by lane (D64): outlives a restart, for an hour.
export const lanes = `
create table learned_lanes (
  lane text primary key,
  connections integer,
  per_second real,
  paused_until integer,
  learned_at integer not null
) strict, without rowid;
`
