// The limits of receiving servers as learned, for each lane (D64): kept for an hour, also over a restart.
export const lanes = `
create table learned_lanes (
  lane text primary key,
  connections integer,
  per_second real,
  paused_until integer,
  learned_at integer not null
) strict, without rowid;
`
