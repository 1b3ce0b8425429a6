// The local addresses that mail leaves from. Where there is a choice of them, mail is bound to one by the name of its
// lane, and an attempt names the one that it came from; a server without a choice stores nothing.
// A recipient that was tried on a day needs no second place in the allowances of that day.

export const sources = `
alter table deliveries add column source text;
alter table deliveries add column tried_day integer;
alter table attempts add column source text;
create table source_addresses (
  key integer primary key,
  address text not null unique
) strict;
`
