// Applications that send by SMTP cannot use the API's members: their token holds the agent that they send as, and the
// daily limit of recipients.
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
