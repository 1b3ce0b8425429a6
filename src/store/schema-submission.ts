// Programs that send by SMTP cannot set headers: the agent they send as, and how many recipients they may write to in a day, stand with
// their token.
export const submission = `
alter table tokens add column agent_id text;
alter table tokens add column daily integer;
create table token_days (
  token_key integer not null references tokens on delete cascade,
  day integer not null,
  recipients integer not null,
  primary key (token_key, day)
) strict, without rowid;
`
